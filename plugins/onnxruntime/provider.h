/* The execution provider of a session. */
#ifndef BRAID_ORT_PROVIDER_H
#define BRAID_ORT_PROVIDER_H

#include "options.h"

/* Opens (or shares) the devices that the options name. *ep is what the factory gives to the framework; it holds nothing
 * of the factory, which may be released before it. `lasting` is a logger that lives as long as the process, `session`
 * one that lives as long as the session. */
BRAID_MUST_CHECK braid_status braid_ort_provider_create(const braid_ort_options *options, const OrtLogger *lasting,
                                                        const OrtLogger *session, void **ep);
void braid_ort_provider_destroy(void *ep);

#endif
