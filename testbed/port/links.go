package port

// Link is the state of a network interface.
type Link struct {
	Index   int
	Name    string
	Up      bool // administratively up, and its lower layer has a carrier
	Enabled bool // administratively up
	Gone    bool // the interface was removed
	Lower   int  // index of the interface of this namespace that a macvlan is stacked on; 0: none
	MTU     int
	MAC     [6]byte
}
