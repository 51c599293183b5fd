package virtual

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// record carries a run out with a recorder.
func record(t testing.TB, lab *Lab, run scenario.Run, o recording.Options) (*recording.Recording, *report.Result) {
	t.Helper()
	rec := recording.New(run.Fabric, o)
	result, err := lab.Run(context.Background(), run, scenario.Observer{Recorder: rec})
	if err != nil {
		t.Fatal(err)
	}
	return rec.End(result), result
}

// recordedRuns are a healthy run with marks, and a cut that quenches report and one that the controller reports.
func recordedRuns(t testing.TB) []scenario.Run {
	edit := func(s *scenario.Scenario) { s.Seeds = scenario.Seeds{1} }
	return demo(t, edit, func(r scenario.Run) bool {
		switch r.Notifier {
		case scenario.NotifyNone:
			return r.Scheme.Name == scenario.ECMP && r.Collective.Name() == "all-to-all"
		case scenario.NotifyQuench, scenario.NotifyGNMI:
			return ethereal(r) && r.Collective.Name() == "all-to-all"
		}
		return false
	})
}

// recorded is a run that was carried out with a recorder.
type recorded struct {
	run    scenario.Run
	r      *recording.Recording
	result *report.Result
}

var (
	recordOnce sync.Once
	recordings []recorded
)

// recordAll carries recordedRuns out, once for all tests, which change nothing of it.
func recordAll(t *testing.T) []recorded {
	t.Helper()
	oneGoroutine(t)
	recordOnce.Do(func() {
		for _, run := range recordedRuns(t) {
			r, result := record(t, newLab(t), run, recording.Options{})
			recordings = append(recordings, recorded{run, r, result})
		}
	})
	if len(recordings) < 3 {
		t.Fatal("runs with a recorder failed in another test")
	}
	return recordings
}

// TestRecordingChangesNothing: a run that is recorded is the same run, to every event.
func TestRecordingChangesNothing(t *testing.T) {
	for _, x := range recordAll(t) {
		run, got := x.run, x.result
		want := mustRun(t, newLab(t), run)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(report.Result{}, "WallMS")); diff != "" {
			t.Errorf("%v: without and with a recorder:\n%s", run, diff)
		}
	}
}

// TestRecordingEqualsResult: what a recording counts is what the result says.
func TestRecordingEqualsResult(t *testing.T) {
	for _, x := range recordAll(t) {
		run, r, result := x.run, x.r, x.result
		count := map[report.Kind]int64{}
		for _, i := range r.Instants {
			count[i.Kind] += i.Count
		}
		lost := count[recording.Lost]
		for kind, want := range map[report.Kind]int64{
			report.KindQuench: result.Quenches, report.KindFlip: int64(result.Flips), report.KindTimeout: result.Timeouts,
		} {
			if count[kind] != want {
				t.Errorf("%v: %d times %s, the result says %d", run, count[kind], kind, want)
			}
		}
		// What was marked and then lost did not arrive.
		if m := count[recording.Mark]; m < result.Marked || m > result.Marked+lost {
			t.Errorf("%v: %d marks, %d arrived and %d packets were lost", run, m, result.Marked, lost)
		}
		if run.Notifier == scenario.NotifyNone && count[recording.Mark] == 0 {
			t.Errorf("%v: no mark", run)
		}
		open, messages := 0, 0
		for _, s := range r.Slices {
			if s.Open && s.Kind != recording.Probe { // a path that was left is probed to the end
				open++
			}
			if s.Kind == recording.Message {
				messages++
				if s.Received == 0 || s.Received > s.End {
					t.Errorf("%v: message %#x was received at %v and acknowledged at %v", run, s.ID, s.Received, s.End)
				}
			}
		}
		hosts := run.Fabric.Hosts()
		if open > 0 || messages != hosts*(hosts-1) {
			t.Errorf("%v: %d messages of %d, %d slices did not end", run, messages, hosts*(hosts-1), open)
		}
		equalCounters(t, r, result)
	}
}

// equalCounters compares the readings with the result: what links carried, and the longest queue.
func equalCounters(t *testing.T, r *recording.Recording, result *report.Result) {
	t.Helper()
	longest := int32(0)
	for d := range sim.LinkDir(2 * r.Fabric.Links()) {
		used, before := 0.0, fabric.Time(0)
		for k, at := range r.Readings {
			l := r.Link(k, d)
			used += float64(l.Use) / 10_000 * float64(at-before)
			before = at
			longest = max(longest, l.Peak)
			if l.Queue > l.Peak {
				t.Fatalf("%s: a mean queue of %d and a longest of %d", recording.DirName(r.Fabric, d), l.Queue, l.Peak)
			}
		}
		// A packet whose first bit leaves counts at once, and readings hold four digits.
		share := used / float64(before)
		if want := result.Links[d].Share; math.Abs(share-want) > 0.002 {
			t.Errorf("%s: used %.4f of the time by the readings, %.4f by the result", recording.DirName(r.Fabric, d), share, want)
		}
	}
	if want := result.QueueMax[len(result.QueueMax)-1]; math.Abs(float64(longest)-want) > want/1000 {
		t.Errorf("the longest queue is %d by the readings, %.0f by the result", longest, want)
	}
}

// TestTraceReadsBack: a trace says all that the recording has, to whole nanoseconds, and written again it is the same.
func TestTraceReadsBack(t *testing.T) {
	for _, x := range recordAll(t) {
		run, r := x.run, x.r
		var first, second bytes.Buffer
		if err := r.Write(&first); err != nil {
			t.Fatal(err)
		}
		again, err := recording.Read(t.Context(), bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Slices) != len(r.Slices) || len(again.Instants) != len(r.Instants) || len(again.Readings) != len(r.Readings) {
			t.Errorf("%v: %d slices, %d instants, %d readings of %d, %d, %d", run,
				len(again.Slices), len(again.Instants), len(again.Readings), len(r.Slices), len(r.Instants), len(r.Readings))
		}
		if diff := cmp.Diff(r.Links, again.Links); diff != "" {
			t.Errorf("%v: links: %s", run, diff)
		}
		if diff := cmp.Diff(r.Hosts, again.Hosts); diff != "" {
			t.Errorf("%v: hosts: %s", run, diff)
		}
		if err := again.Write(&second); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%v: read and written again, the trace is another", run)
		}
		checkTrace(t, run, first.Bytes())
	}
}

// traceFormat returns the message Trace of trace.proto, so that what is written is read by the protobuf library.
func traceFormat(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "recording", "trace.proto"))
	if err != nil {
		t.Fatal(err)
	}
	file := &descriptorpb.FileDescriptorProto{Name: new("trace.proto"), Syntax: new("proto2"), Package: new("perfetto.protos")}
	types := map[string]descriptorpb.FieldDescriptorProto_Type{"Unit": descriptorpb.FieldDescriptorProto_TYPE_INT32, "Type": descriptorpb.FieldDescriptorProto_TYPE_INT32}
	for n, name := range descriptorpb.FieldDescriptorProto_Type_name {
		types[strings.ToLower(strings.TrimPrefix(name, "TYPE_"))] = descriptorpb.FieldDescriptorProto_Type(n)
	}
	line := regexp.MustCompile(`^message (\w+) \{|^  (optional|repeated) (\w+) (\w+) = (\d+);`)
	for text := range strings.Lines(string(text)) {
		m := line.FindStringSubmatch(text)
		switch {
		case m == nil:
		case m[1] != "":
			file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{Name: &m[1]})
		default:
			number, _ := strconv.ParseInt(m[5], 10, 32)
			f := &descriptorpb.FieldDescriptorProto{Name: &m[4], Number: new(int32(number)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			if m[2] == "repeated" {
				f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			if typ, ok := types[m[3]]; ok {
				f.Type = typ.Enum()
			} else {
				f.TypeName = new(".perfetto.protos." + m[3])
			}
			last := file.GetMessageType()[len(file.GetMessageType())-1]
			last.Field = append(last.Field, f)
		}
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d.Messages().ByName("Trace")
}

// fieldOf reads a field of a message that is known by its description alone.
func fieldOf(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

// checkTrace checks what Perfetto asks of a trace: no field is unknown, every event is of a track that was described
// before, every slice ends, after it began and before the next on its track begins, time does not go back, and every
// arrow has two ends.
func checkTrace(t *testing.T, run scenario.Run, data []byte) {
	t.Helper()
	trace := dynamicpb.NewMessage(traceFormat(t))
	if err := proto.Unmarshal(data, trace); err != nil {
		t.Fatal(err)
	}
	known := dynamicpb.NewMessage(trace.Descriptor())
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, known); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(trace, known) {
		t.Errorf("%v: the trace has fields that trace.proto has not", run)
	}
	type state struct {
		at   uint64
		open bool
	}
	tracks, flows, ended := map[uint64]*state{}, map[uint64]uint64{}, map[uint64]bool{}
	kinds := map[int64]int{}
	last := uint64(0)
	packets := fieldOf(trace, "packet").List()
	for n := range packets.Len() {
		p := packets.Get(n).Message()
		if p.Has(p.Descriptor().Fields().ByName("track_descriptor")) {
			uuid := fieldOf(fieldOf(p, "track_descriptor").Message(), "uuid").Uint()
			if tracks[uuid] != nil {
				t.Fatalf("track %d is described twice", uuid)
			}
			tracks[uuid] = &state{}
			continue
		}
		e, at := fieldOf(p, "track_event").Message(), fieldOf(p, "timestamp").Uint()
		s := tracks[fieldOf(e, "track_uuid").Uint()]
		if s == nil || at < last {
			t.Fatalf("event %v: track not described, or after %d", p, last)
		}
		last, s.at = at, at
		kind := fieldOf(e, "type").Int()
		kinds[kind]++
		switch kind {
		case 1: // TYPE_SLICE_BEGIN
			if s.open {
				t.Errorf("%v: begins within another", p)
			}
			s.open = true
		case 2: // TYPE_SLICE_END
			if !s.open {
				t.Errorf("%v: ends and did not begin", p)
			}
			s.open = false
		}
		begin, end := fieldOf(e, "flow_ids").List(), fieldOf(e, "terminating_flow_ids").List()
		for i := range begin.Len() {
			flows[begin.Get(i).Uint()] = at
		}
		for i := range end.Len() {
			id := end.Get(i).Uint()
			if from, ok := flows[id]; !ok || ended[id] || from > at {
				t.Errorf("arrow %d ends at %d, and began: %v", id, at, ok)
			}
			ended[id] = true
		}
	}
	for id, s := range tracks {
		if s.open {
			t.Errorf("a slice of track %d does not end", id)
		}
	}
	if len(flows) == 0 || len(flows) != len(ended) {
		t.Errorf("%v: %d arrows begin, %d end", run, len(flows), len(ended))
	}
	if kinds[4] == 0 || kinds[3] == 0 { // TYPE_COUNTER, TYPE_INSTANT
		t.Errorf("%v: events by type: %v", run, kinds)
	}
}

// TestFlipAnswersCut: from every flip arrows lead back by the quench, or the controller's word, to the cut.
func TestFlipAnswersCut(t *testing.T) {
	for _, x := range recordAll(t) {
		run, r := x.run, x.r
		for _, i := range r.Instants {
			if i.Kind != report.KindFlip {
				continue
			}
			for i.Cause >= 0 {
				i = r.Instants[i.Cause]
			}
			if i.Kind != report.KindCut {
				t.Errorf("%v: a flip answers %s at %v, not the cut: %s", run, i.Kind, i.At, i.Text)
			}
		}
	}
}

// TestRecordingBounds: options keep a recording small, and what is full says so.
func TestRecordingBounds(t *testing.T) {
	oneGoroutine(t)
	lab, run := newLab(t), recordedRuns(t)[0]
	from, until := 50*fabric.Microsecond, 100*fabric.Microsecond
	r, _ := record(t, lab, run, recording.Options{From: from, Until: until, Hosts: []fabric.NodeID{3}, Every: 5 * fabric.Microsecond})
	if got := len(r.Readings); got < 10 || got > 12 {
		t.Errorf("%d readings of 50 us, one in 5 us", got)
	}
	for _, s := range r.Slices {
		if s.End < from || s.Begin >= until || s.Node > 0 && s.Node != 3 {
			t.Errorf("%+v: not of host 3 between %v and %v", s, from, until)
		}
	}
	for _, i := range r.Instants {
		if i.At < from || i.At >= until {
			t.Errorf("%+v: not between %v and %v", i, from, until)
		}
	}
	if r, _ := record(t, lab, run, recording.Options{Most: 100}); len(r.Slices)+len(r.Instants) != 100 || r.Left == 0 {
		t.Errorf("%d slices and %d instants of 100, %d left out", len(r.Slices), len(r.Instants), r.Left)
	}
}
