package p4runtime

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// deviceData returns the BMv2 JSON in a p4_device_config: the JSON itself, or the message p4.tmp.P4DeviceConfig
// around it, which p4lang's tutorials still send (field 3, device_data).
func deviceData(b []byte) []byte {
	if t := bytes.TrimLeft(b, " \t\r\n\uFEFF"); len(t) > 0 && t[0] == '{' {
		return b
	}
	for rest := b; len(rest) > 0; {
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return b
		}
		rest = rest[n:]
		if num == 3 && typ == protowire.BytesType {
			if data, n := protowire.ConsumeBytes(rest); n >= 0 {
				return data
			}
			return b
		}
		if n = protowire.ConsumeFieldValue(num, typ, rest); n < 0 {
			return b
		}
		rest = rest[n:]
	}
	return b
}
