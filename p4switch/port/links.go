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

	// Of [Links.List] alone:
	Hardware bool   // no virtual interface
	Mbps     uint32 // speed, of hardware; 0: not known
	Autoneg  *bool  // whether the interface negotiates its speed; nil: not known
}
