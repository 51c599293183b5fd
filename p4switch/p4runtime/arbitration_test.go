package p4runtime

import (
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
)

// wants fails unless a code is as expected.
func wants(t *testing.T, what string, got, want codes.Code) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// arbitrationCases are the conformance cases that sonic-pins names in the
// tests of its P4Runtime application.
var arbitrationCases = []struct {
	name   string
	config func(*Config)
	run    func(*testing.T, *device)
}{
	{"DeviceIdMustBeSet", func(c *Config) { c.DeviceID = 0 }, func(t *testing.T, d *device) {
		s := d.open()
		s.send(arbitration(testDevice, "", id(2)))
		wants(t, "stream", s.ended(), codes.FailedPrecondition)
	}},
	{"DeviceIdMustMatch", nil, func(t *testing.T, d *device) {
		s := d.open()
		s.send(arbitration(testDevice+1, "", id(2)))
		wants(t, "stream", s.ended(), codes.NotFound)
	}},
	{"DeviceIdCannotChangeAtController", nil, func(t *testing.T, d *device) {
		s := d.open()
		wants(t, "bid", s.bid(id(2)), codes.OK)
		s.send(arbitration(testDevice+1, "", id(2)))
		wants(t, "stream", s.ended(), codes.FailedPrecondition)
	}},
	{"DeviceIdCannotChangeAtSwitchWithActiveConnection", nil, func(t *testing.T, d *device) {
		s := d.open()
		s.bid(nil)
		wantCode(t, d.setDeviceID(0), codes.FailedPrecondition)
	}},
	{"DeviceIdCanChangeAtSwitchWithNoActiveConnection", nil, func(t *testing.T, d *device) {
		d.open()
		wantCode(t, d.setDeviceID(0), codes.OK)
	}},
	{"DeviceIdChangesWillIgnoreNoopWithActiveConnection", nil, func(t *testing.T, d *device) {
		d.open().bid(nil)
		wantCode(t, d.setDeviceID(testDevice), codes.OK)
	}},
	{"DeviceIdCanBeChangedAfterActiveConnectionCloses", nil, func(t *testing.T, d *device) {
		s := d.open()
		s.bid(nil)
		s.finish()
		wantCode(t, d.setDeviceID(testDevice+1), codes.OK)
	}},
	{"PrimaryConnectionWithElectionId", nil, func(t *testing.T, d *device) {
		wants(t, "bid", d.open().bid(id(1)), codes.OK)
	}},
	{"PrimaryConnectionWithElectionIdZero", nil, func(t *testing.T, d *device) {
		wants(t, "bid", d.open().bid(id(0)), codes.OK)
	}},
	{"NoElectionIdIsAlwaysBackupConnection", nil, func(t *testing.T, d *device) {
		wants(t, "bid", d.open().bid(nil), codes.NotFound)
	}},
	{"PrimaryAndBackupConnections", nil, func(t *testing.T, d *device) {
		wants(t, "first", d.open().bid(id(2)), codes.OK)
		wants(t, "second", d.open().bid(id(1)), codes.AlreadyExists)
	}},
	{"NotifyAllConnectionsForNewPrimary", nil, func(t *testing.T, d *device) {
		first := d.open()
		wants(t, "first", first.bid(id(2)), codes.OK)
		wants(t, "second", d.open().bid(id(3)), codes.OK)
		wants(t, "first receives", first.received(), codes.AlreadyExists)
	}},
	{"NotifyAllConnectionsWhenPrimaryDisconnects", nil, func(t *testing.T, d *device) {
		first, second := d.open(), d.open()
		wants(t, "first", first.bid(id(2)), codes.OK)
		wants(t, "second", second.bid(id(1)), codes.AlreadyExists)
		first.finish()
		wants(t, "second receives", second.received(), codes.NotFound)
	}},
	{"NotifyAllConnectionsIfPrimaryIncreasesItsElectionId", nil, func(t *testing.T, d *device) {
		first, second := d.open(), d.open()
		wants(t, "first", first.bid(id(2)), codes.OK)
		wants(t, "second", second.bid(id(1)), codes.AlreadyExists)
		wants(t, "first again", first.bid(id(3)), codes.OK)
		m, err := second.recv()
		if err != nil {
			t.Fatal(err)
		}
		wants(t, "second receives", codes.Code(m.GetArbitration().GetStatus().GetCode()), codes.AlreadyExists)
		if got := m.GetArbitration().GetElectionId(); got.GetHigh() != 3 || got.GetLow() != 0 {
			t.Errorf("second receives election id %v, want 3:0", got)
		}
	}},
	{"DoNotNotifyIfBackupIncreasesItsElectionId", nil, func(t *testing.T, d *device) {
		first, second := d.open(), d.open()
		wants(t, "first", first.bid(id(3)), codes.OK)
		wants(t, "second", second.bid(id(1)), codes.AlreadyExists)
		wants(t, "second again", second.bid(id(2)), codes.AlreadyExists)
		if rest := first.finish(); len(rest) != 0 {
			t.Errorf("the primary received %v", rest)
		}
	}},
	{"NotifyAllConnectionsWhenPrimaryBecomesBackup", nil, func(t *testing.T, d *device) {
		first, second := d.open(), d.open()
		wants(t, "first", first.bid(id(2)), codes.OK)
		wants(t, "second", second.bid(id(1)), codes.AlreadyExists)
		wants(t, "first steps down", first.bid(nil), codes.NotFound)
		wants(t, "second receives", second.received(), codes.NotFound)
	}},
	{"PrimaryConnectionCanReestablishAfterGoingDown", nil, func(t *testing.T, d *device) {
		first := d.open()
		wants(t, "first", first.bid(id(2)), codes.OK)
		first.finish()
		wants(t, "again", d.open().bid(id(2)), codes.OK)
	}},
	{"PrimaryConnectionCanReestablishAfterBecomingBackup", nil, func(t *testing.T, d *device) {
		first, second := d.open(), d.open()
		wants(t, "first", first.bid(id(2)), codes.OK)
		wants(t, "second", second.bid(id(1)), codes.AlreadyExists)
		wants(t, "first steps down", first.bid(nil), codes.NotFound)
		wants(t, "second receives", second.received(), codes.NotFound)
		wants(t, "first again", first.bid(id(2)), codes.OK)
		wants(t, "second receives", second.received(), codes.AlreadyExists)
	}},
	{"BackupCanReuseElectionIdWhenPrimaryDisconnects", nil, func(t *testing.T, d *device) {
		first, second := d.open(), d.open()
		wants(t, "first", first.bid(id(2)), codes.OK)
		wants(t, "second", second.bid(nil), codes.AlreadyExists)
		first.finish()
		wants(t, "second receives", second.received(), codes.NotFound)
		wants(t, "second", second.bid(id(2)), codes.OK)
	}},
	{"ConnectionCannotBecomePrimaryWithLowerElectionId", nil, func(t *testing.T, d *device) {
		first := d.open()
		wants(t, "first", first.bid(id(2)), codes.OK)
		first.finish()
		wants(t, "lower", d.open().bid(id(1)), codes.NotFound)
	}},
	{"PrimaryCanSendDuplicateArbitrationRequests", nil, func(t *testing.T, d *device) {
		s := d.open()
		wants(t, "once", s.bid(id(2)), codes.OK)
		wants(t, "twice", s.bid(id(2)), codes.OK)
	}},
	{"BackupConnectionCannotUpdateForwardingPipeline", nil, func(t *testing.T, d *device) {
		wants(t, "bid", d.open().bid(nil), codes.NotFound)
		wantCode(t, d.setPipeline(&p4.SetForwardingPipelineConfigRequest{DeviceId: testDevice}), codes.PermissionDenied)
	}},
	{"BackupConnectionCannotSendWriteRequest", nil, func(t *testing.T, d *device) {
		wants(t, "first", d.open().bid(id(2)), codes.OK)
		wants(t, "second", d.open().bid(id(1)), codes.AlreadyExists)
		wantCode(t, d.write(&p4.WriteRequest{DeviceId: testDevice, ElectionId: id(1)}), codes.PermissionDenied)
	}},
	{"TwoConnectionsCannotReuseElectionId", nil, func(t *testing.T, d *device) {
		wants(t, "first", d.open().bid(id(2)), codes.OK)
		s := d.open()
		s.send(arbitration(testDevice, "", id(2)))
		wants(t, "second", s.ended(), codes.InvalidArgument)
	}},
	{"ConnectionCannotChangeItsRoleId", nil, func(t *testing.T, d *device) {
		s := d.open()
		s.send(arbitration(testDevice, "A", id(2)))
		wants(t, "role A", s.received(), codes.OK)
		s.send(arbitration(testDevice, "B", id(2)))
		wants(t, "role B", s.ended(), codes.FailedPrecondition)
	}},
	{"CannotSendRequestsAfterDisconnecting", nil, func(t *testing.T, d *device) {
		s := d.open()
		wants(t, "bid", s.bid(id(2)), codes.OK)
		s.finish()
		wantCode(t, d.write(&p4.WriteRequest{DeviceId: testDevice, ElectionId: id(2)}), codes.PermissionDenied)
	}},
	{"SendingAnInvalidPacketWillNotCloseTheStream", nil, func(t *testing.T, d *device) {
		s := d.open()
		s.send(&p4.StreamMessageRequest{})
		m, err := s.recv()
		if err != nil {
			t.Fatal(err)
		}
		wants(t, "stream error", codes.Code(m.GetError().GetCanonicalCode()), codes.Unimplemented)
		wants(t, "bid", s.bid(id(1)), codes.OK)
	}},
}

func (d *device) setDeviceID(id uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.core.SetDeviceID(id)
}

func TestArbitration(t *testing.T) {
	if n := len(arbitrationCases); n != 27 {
		t.Errorf("%d cases, want 27", n)
	}
	for _, c := range arbitrationCases {
		t.Run(c.name, func(t *testing.T) { onBoth(t, c.config, c.run) })
	}
}

// The cases below are the specification's, beyond that list.

func TestArbitrationRolesAreIndependent(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		a, b := d.open(), d.open()
		a.send(arbitration(testDevice, "A", id(7)))
		wants(t, "role A", a.received(), codes.OK)
		b.send(arbitration(testDevice, "B", id(7)))
		wants(t, "the same election id in role B", b.received(), codes.OK)
		wants(t, "and in the default role", d.open().bid(id(7)), codes.OK)
		wantCode(t, d.write(&p4.WriteRequest{DeviceId: testDevice, Role: "A", ElectionId: id(7)}), codes.FailedPrecondition)
		wantCode(t, d.write(&p4.WriteRequest{DeviceId: testDevice, Role: "C", ElectionId: id(7)}), codes.NotFound)
		wantCode(t, d.write(&p4.WriteRequest{DeviceId: testDevice, Role: "A", ElectionId: id(6)}), codes.PermissionDenied)
	})
}

func TestArbitrationAnswersCarryRoleAndElectionID(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		s := d.open()
		s.send(arbitration(testDevice, "A", nil))
		m, err := s.recv()
		if err != nil {
			t.Fatal(err)
		}
		a := m.GetArbitration()
		if a.GetElectionId() != nil {
			t.Errorf("election id %v before there ever was a primary, want it unset", a.GetElectionId())
		}
		if a.GetRole().GetName() != "A" || a.GetDeviceId() != testDevice {
			t.Errorf("got %v, want role A of device %d", a, testDevice)
		}
	})
}

func TestArbitrationElectionIDHas128Bits(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		low := d.open()
		wants(t, "0:max", low.bid(&p4.Uint128{Low: ^uint64(0)}), codes.OK)
		wants(t, "1:0", d.open().bid(&p4.Uint128{High: 1}), codes.OK)
		wants(t, "the first receives", low.received(), codes.AlreadyExists)
		wants(t, "0:1", d.open().bid(&p4.Uint128{Low: 1}), codes.AlreadyExists)
	})
}

func TestArbitrationLimitsStreams(t *testing.T) {
	onBoth(t, func(c *Config) { c.Budget.StreamsPerRole = 2 }, func(t *testing.T, d *device) {
		d.open().bid(id(1))
		d.open().bid(id(2))
		s := d.open()
		s.send(arbitration(testDevice, "", id(3)))
		wants(t, "third", s.ended(), codes.ResourceExhausted)
	})
}

func TestArbitrationRefusesUnknownRoleConfig(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		m := arbitration(testDevice, "A", id(1))
		m.GetArbitration().Role.Config = &anypb.Any{TypeUrl: "type.googleapis.com/what.ever"}
		s := d.open()
		s.send(m)
		wants(t, "stream", s.ended(), codes.InvalidArgument)
	})
}

// The new primary is notified after everybody else.
func TestArbitrationTellsNewPrimaryLast(t *testing.T) {
	d := newDevice(t, nil)
	var order []string
	open := func(name string) *Stream {
		return d.core.OpenStream(func(m *p4.StreamMessageResponse) error {
			order = append(order, name)
			return nil
		})
	}
	a, b := open("a"), open("b")
	if err := a.Recv(arbitration(testDevice, "", id(1))); err != nil {
		t.Fatal(err)
	}
	order = nil
	if err := b.Recv(arbitration(testDevice, "", id(2))); err != nil {
		t.Fatal(err)
	}
	if len(order) != 2 || order[0] != "a" || order[1] != "b" {
		t.Errorf("notified in the order %v, want [a b]", order)
	}
	if a.Primary() || !b.Primary() {
		t.Errorf("primary: a %v, b %v", a.Primary(), b.Primary())
	}
}
