// Package viewhttp serves the page of package view to a browser, and sends a live fabric's ticks to it.
//
// # Trust
//
// The page reads and never writes. A [Server] answers GET alone, under a secret path, to a browser on this machine
// by a loopback name. Its content security policy says that the page loads nothing and contacts only its own
// server.
package viewhttp
