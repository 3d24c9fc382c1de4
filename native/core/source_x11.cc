#include "fault.h"
#include "source.h"
namespace svc { std::unique_ptr<Source> open_x11_source(const SourceConfig&) { throw Fault("source","not-yet","not yet"); } }
