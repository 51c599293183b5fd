// Package hugepages has the kernel back the Go heap by huge pages.
//
// A simulated fabric is some hundred megabytes that are read in no order. With
// pages of 4 KB nearly every read of memory also misses the processor's table of
// translations, and in a virtual machine the walk to the page is longer than the
// read. Go leaves the choice to the kernel, whose usual one ("madvise" in
// /sys/kernel/mm/transparent_hugepage/enabled) is that a process has to ask.
package hugepages
