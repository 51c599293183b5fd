// Package injection serves p4.bm.DataplaneInterface, BMv2's packet injection: a client sends packets to a switch
// without interfaces and receives its outgoing packets, by port number. It can take ports down and up.
//
//	s, err := injection.New(deviceID, numbers)
//	process.Config{Ports: ..., Links: s.Links()} // with a PortConfig for each of s.Ports()
//	err = s.Serve(ctx, listener)
//
// One client at a time has the packets. Packets that leave because of a request's packet, also its clones and copies,
// have the request's id. Other packets have the id 0.
package injection
