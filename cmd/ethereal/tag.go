package main

import "github.com/spf13/cobra"

// newTagCommand makes `ethereal host tag`.
func newTagCommand() *cobra.Command {
	flags := labellingFlags{labeller: labellerTagger}
	c := &cobra.Command{
		Use:   "tag --fabric FILE --host HOST --interface IF... [--controller ADDR]...",
		Short: "Choose paths for the RoCEv2 traffic of other programs on this host",
		Long: `Finds the RoCEv2 queue pairs of any program that sends through the kernel, and gives each a path. An eBPF program at the
interfaces' egress writes the path's label into the packets. When a controller or a source quench reports that a path is
dead, its queue pairs move to other paths. It needs CAP_BPF and CAP_NET_ADMIN (root). An RNIC's packets bypass the kernel.
It is ethereal host agent --labeller tagger.`,
		Example: `  ethereal host tag --fabric fabric.yaml --host h0 --interface eth0 --controller 127.0.0.1:9562`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return flags.run(c.Context(), c.ErrOrStderr()) },
	}
	flags.register(c)
	if err := c.MarkFlagRequired("interface"); err != nil {
		panic(err) // the flag was just defined
	}
	return c
}
