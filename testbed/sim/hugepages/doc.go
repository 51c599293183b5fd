// Package hugepages lets the kernel back the Go heap by huge pages.
//
// A simulated fabric takes some hundred megabytes, which are read in random order. With pages of 4 KB nearly every
// read of memory also misses the processor's table of translations, and in a virtual machine the walk to the page
// is longer than the read. Go leaves the choice to the kernel, whose usual setting ("madvise" in
// /sys/kernel/mm/transparent_hugepage/enabled) requires that a process asks.
package hugepages
