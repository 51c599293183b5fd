//go:build cgo

package main

import "testing"

// TestTransport: what is of TLS is not ignored.
func TestTransport(t *testing.T) {
	for _, tt := range []struct {
		config
		ok bool
	}{
		{config{}, true},
		{config{cert: "cert.pem", key: "key.pem"}, false},
		{config{key: "key.pem"}, false},
		{config{name: "controller"}, false},
	} {
		if _, err := tt.transport(); err == nil != tt.ok {
			t.Errorf("%+v: %v", tt.config, err)
		}
	}
}
