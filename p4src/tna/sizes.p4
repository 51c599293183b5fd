// Table sizes, by which a compilation is fitted to a fabric: -DROUTES=4096.
#ifndef ETHEREAL_SIZES_P4
#define ETHEREAL_SIZES_P4

#ifndef ROUTES
#define ROUTES 1024       // of each address family
#endif
#ifndef LABELS
#define LABELS 256        // entries of source_route
#endif
#ifndef ECMP_GROUPS
#define ECMP_GROUPS 1024  // entries of ecmp, and groups of its selector
#endif
#ifndef ECMP_MEMBERS
#define ECMP_MEMBERS 1024
#endif
#ifndef QUENCH_SLOTS
#define QUENCH_SLOTS 4096 // a power of two: see quench_slot_t
#endif

#endif
