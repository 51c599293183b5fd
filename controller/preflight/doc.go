// Package preflight looks, before anything is deployed, at all that a controller
// depends on and can see: that switches answer over P4Runtime and gNMI, run or can
// take the program, hold the fabric's tables and have its ports up; who is primary;
// clocks and certificates; the agents of hosts; the cables. Every line has a light
// and, unless it is green, a remedy. What cannot be seen over these interfaces is
// said to be unseen, not taken to be right.
//
// It writes no table. Where no controller runs it is primary at every switch while
// the cables are checked, with the least election id.
package preflight
