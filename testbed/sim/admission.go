package sim

// An admission decides what becomes of a packet that is to join a queue, one that finds
// its port idle included: it is asked once per packet and switch. Regions share it, so
// what it keeps beside the switch and the queue must be a direction's or a switch's.
//
// A rule of a queue's own goes behind it: other thresholds, a mark as the packet joins
// (those of the P4 program are set as it leaves).
// A rule that holds senders back is also called for packets that wait and go, as
// [flowControl] does.
type admission interface {
	admit(s *switchNode, q *classQueue, p *packet) admissionVerdict
}

type admissionVerdict uint8

const (
	admitPacket admissionVerdict = iota
	refusePacket
	trimPacket // cut it to its header, which joins the highest class
)

// dynamicThresholds let a queue of a switch hold alpha times what is free of the buffer
// that all share.
type dynamicThresholds struct {
	buffer int64 // bytes
	alpha  int64 // of alphaUnit
}

func thresholdsOf(c *Config) dynamicThresholds {
	return dynamicThresholds{buffer: int64(c.Buffer), alpha: int64(c.Alpha*alphaUnit + 0.5)}
}

func (t *dynamicThresholds) admit(s *switchNode, q *classQueue, p *packet) admissionVerdict {
	free := t.buffer - s.used
	if int64(p.length) > free || int64(q.bytes) >= free*t.alpha/alphaUnit {
		return refusePacket
	}
	return admitPacket
}

// admit gives the data class the whole buffer: who sends it is paused in time.
func (fc *flowControl) admit(s *switchNode, q *classQueue, p *packet) admissionVerdict {
	if p.class != 0 {
		return fc.others.admit(s, q, p)
	}
	if int64(p.length) > fc.others.buffer-s.used {
		return refusePacket
	}
	return admitPacket
}

// trimming cuts the packets of the data class that would make their queue longer than a
// limit, as switches of Ultra Ethernet do (UE specification 1.0, packet trimming): what is
// left of a packet identifies it to its receiver.
type trimming struct {
	maxBytes int32 // bytes
	others   admission
}

func (t *trimming) admit(s *switchNode, q *classQueue, p *packet) admissionVerdict {
	if p.class == 0 && q.bytes+p.length > t.maxBytes && p.header > 0 {
		return trimPacket
	}
	return t.others.admit(s, q, p)
}
