package port

// Link is the state of a network interface.
type Link struct {
	Index   int
	Name    string
	Up      bool // administratively up, and its lower layer has a carrier
	Enabled bool // administratively up
	Gone    bool // the interface was removed
	OnlyUp  bool // only Index and Up are known
	Lower   int  // index of the interface of this namespace that a macvlan is stacked on; 0: none
	MTU     int
	MAC     [6]byte

	// Hardware and the fields below are set by [Links.List] alone. Hardware: it is not a virtual interface.
	Hardware bool   // no virtual interface
	Mbps     uint32 // speed, of hardware; 0: not known
	Autoneg  *bool  // whether the interface negotiates its speed; nil: not known
}
