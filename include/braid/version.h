/* The version of libbraid. */
#ifndef BRAID_VERSION_H
#define BRAID_VERSION_H
#define BRAID_VERSION "0.1.0"
#endif
