-- Wireshark and tshark: the CSIG tag of p4src/shared/headers.p4, as in `tshark -X lua_script:scripts/csig.lua -V`.
local csig = Proto("csig", "Congestion Signaling")
local signals = { [0] = "available bandwidth", [1] = "available share of bandwidth", [2] = "delay of a hop" }
local fields = csig.fields
fields.signal = ProtoField.uint8("csig.signal", "Signal", base.DEC, signals, 0xF0)
fields.value = ProtoField.uint24("csig.value", "Value", base.DEC, nil, 0x0FFFFF)
fields.locator = ProtoField.uint24("csig.locator", "Locator of the bottleneck", base.HEX)
fields.type = ProtoField.uint16("csig.type", "Type", base.HEX)

local ethertypes = DissectorTable.get("ethertype")

function csig.dissector(buffer, packet, tree)
	if buffer:len() < 8 then return 0 end
	local branch = tree:add(csig, buffer(0, 8))
	branch:add(fields.signal, buffer(0, 1))
	branch:add(fields.value, buffer(0, 3))
	branch:add(fields.locator, buffer(3, 3))
	branch:add(fields.type, buffer(6, 2))
	return 8 + ethertypes:try(buffer(6, 2):uint(), buffer(8):tvb(), packet, tree)
end

ethertypes:add(0x88B5, csig)
