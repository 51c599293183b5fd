// Package preflight checks, before deployment, everything that a controller depends on and can see. Switches answer
// over P4Runtime and gNMI, run or can take the program, hold the fabric's tables and have their ports up. It also
// checks who is primary, the clocks and certificates, the hosts' agents, and the cables. Every line has a light
// and, unless the light is green, a remedy. What these interfaces cannot show is reported as unseen, not as
// correct.
//
// It writes no table. Where no controller runs, it is primary at every switch while it checks the cables, with the
// lowest election id.
package preflight
