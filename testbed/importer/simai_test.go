package importer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/importer"
)

const simaiWorkload = `HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 16 checkpoints: 0 checkpoint_initiates: 0
3
embedding -1 1000 ALLREDUCE 8000 2000 NONE 0 1 ALLGATHER 16000 100
mlp -1 5000 BROADCAST 9 6000 REDUCESCATTER 12000 7000 ALLREDUCE_DP_EP 4000 100
moe -1 0 ALLTOALL_EP 1000 0 NONE 0 0 NONE 0 100
`

// TestSimAI: forward, then backward by layers; gradients of weights are reduced in the background. Groups are SimAI's.
func TestSimAI(t *testing.T) {
	im, err := read(t, "simai", importer.Options{}, simaiWorkload)
	if err != nil {
		t.Fatal(err)
	}
	ns := func(n int) importer.Step { return importer.Step{Compute: fabric.Time(n) * fabric.Nanosecond} }
	want := []importer.Step{
		ns(1000), {What: "all-reduce", Bytes: 8000, Group: 4, Stride: 1}, ns(5000), {What: "all-to-all", Bytes: 1000, Group: 2, Stride: 4},
		ns(6000), {What: "reduce-scatter", Bytes: 12000, Group: 4, Stride: 1}, ns(7000),
		{What: "all-reduce", Bytes: 4000, Group: 2, Stride: 8, Background: true},
		ns(2000), ns(1), {What: "all-gather", Bytes: 16000, Group: 4, Stride: 4, Background: true},
	}
	if diff := cmp.Diff(want, im.Jobs[0].Steps); diff != "" {
		t.Error(diff)
	}
	if !hasNote(im, "collectives that SimAI does not know are left out, as it does: 1") {
		t.Errorf("%q", im.Notes)
	}
	// By SimAI's formulas: a ring all-reduce of S has 2(n-1)S bytes on the wire, the others (n-1)S.
	all := int64(4*2*3*8000 + 8*1*1000 + 4*3*12000 + 8*2*1*4000 + 4*3*16000)
	if _, bytes := traffic(t, load(t, im)); bytes != all {
		t.Errorf("%d bytes, want %d", bytes, all)
	}
	if im, err = read(t, "simai", importer.Options{Ranks: 32}, simaiWorkload); err != nil || im.Ranks != 32 || !hasNote(im, "32 ranks in place of all_gpus") {
		t.Errorf("%v", err)
	}
}

func TestSimAIMicro(t *testing.T) {
	text := "MICRO\n2\nm -1 1 NONE 0 1 NONE 0 1 ALLGATHER 4096 1\nm -1 1 NONE 0 1 NONE 0 1 ALLTOALL 2147483648 1\n"
	if _, err := read(t, "simai", importer.Options{}, text); err == nil || !strings.Contains(err.Error(), "write --world-size N") {
		t.Errorf("%v", err)
	}
	im, err := read(t, "simai", importer.Options{Ranks: 8}, text)
	if err != nil {
		t.Fatal(err)
	}
	if _, bytes := traffic(t, load(t, im)); bytes != 7*4096+7*2147483648 {
		t.Errorf("%d bytes", bytes)
	}
}

// simaiTopology has 4 servers of 2 GPUs on 2 rails: GPUs 0 to 7, NVLink switches 8 to 11, switches 12 to 15.
const simaiTopology = `16 2 4 4 20 H100
8 9 10 11 12 13 14 15
0 8 2880Gbps 0.000025ms 0
1 8 2880Gbps 0.000025ms 0
2 9 2880Gbps 0.000025ms 0
3 9 2880Gbps 0.000025ms 0
4 10 2880Gbps 0.000025ms 0
5 10 2880Gbps 0.000025ms 0
6 11 2880Gbps 0.000025ms 0
7 11 2880Gbps 0.000025ms 0
0 12 400Gbps 0.0005ms 0
2 12 400Gbps 0.0005ms 0
4 12 400Gbps 0.0005ms 0
6 12 400Gbps 0.0005ms 0
1 13 400Gbps 0.0005ms 0
3 13 400Gbps 0.0005ms 0
5 13 400Gbps 0.0005ms 0
7 13 400Gbps 0.0005ms 0
12 14 400Gbps 0.0005ms 0
12 15 400Gbps 0.0005ms 0
13 14 400Gbps 0.0005ms 0
13 15 400Gbps 0.0005ms 0
`

func TestSimAITopology(t *testing.T) {
	im, err := read(t, "simai", importer.Options{}, simaiTopology)
	if err != nil {
		t.Fatal(err)
	}
	want := importer.Servers{GPUs: 2, Wiring: "rail", CrossRail: "internal", Internal: fabric.LinkSpec{Rate: 2880 * fabric.Gbps, Delay: 50 * fabric.Nanosecond}}
	if diff := cmp.Diff(want, *im.Servers); diff != "" {
		t.Error(diff)
	}
	if f := im.Fabric; f.ToRs != 2 || f.Spines != 2 || f.HostsPerToR != 4 || f.HostLink.Rate != 400*fabric.Gbps {
		t.Errorf("%+v", f)
	}
	load(t, im)
}

const aicbWorkload = `[rank0 ~ rank15]
comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count
CommType.all_reduce,CommGroup.dp_group,4,8000,init,None,None,,None,None,None,1
CommType.broadcast,CommGroup.tp_group,4,100,init,None,0,,None,None,None,1
CommType.epoch_end,None,None,0,,None,None,,None,None,None,1
CommType.computation,None,None,((2048 4096) (4096 512)),forward,None,None,,1500,None,None,1
CommType.computation,None,None,((2048 4096) (4096 512)),forward,None,None,,None,None,None,1
CommType.all_gather,CommGroup.tp_group,4,4000.0,forward,None,None,,None,None,None,1
CommType.reduce_scatter,CommGroup.ep_dp_group,2,4,forward,None,None,,None,None,None,1
CommType.all_to_all,CommGroup.ep_group,2,600,forward,None,None,,None,None,None,1
CommType.isend,CommGroup.pp_group,1,99,forward,None,None,send_next,None,None,None,1
CommType.barrier,CommGroup.all,None,0,,None,None,,None,None,None,1
`

func TestAICB(t *testing.T) {
	im, err := read(t, "aicb", importer.Options{}, aicbWorkload)
	if err != nil {
		t.Fatal(err)
	}
	want := []importer.Step{
		{What: "all-reduce", Bytes: 8000, Group: 4, Stride: 4}, {What: "all-gather", Bytes: 100, Group: 4, Stride: 1},
		{Compute: 1500 * fabric.Nanosecond}, {What: "all-gather", Bytes: 4000, Group: 4, Stride: 1},
		{What: "reduce-scatter", Bytes: 4, Group: 2, Stride: 8}, {What: "all-to-all", Bytes: 600, Group: 2, Stride: 4},
		{What: "all-reduce", Bytes: 16, Group: 16, Stride: 1},
	}
	if diff := cmp.Diff(want, im.Jobs[0].Steps); diff != "" {
		t.Error(diff)
	}
	for _, note := range []string{
		"computations without a time are left out: 1", "messages between stages of the pipeline, and what else is no collective, are left out, as steps of jobs are collectives: 1",
		"broadcasts and reductions are sent as all-gathers and reduce-scatters of the same bytes: 1",
	} {
		if !hasNote(im, note) {
			t.Errorf("no note %q in %q", note, im.Notes)
		}
	}
	load(t, im)
}

// TestAICBStages: each stage of a pipeline is a job of its ranks.
func TestAICBStages(t *testing.T) {
	head := "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count\n"
	row := "CommType.all_reduce,CommGroup.tp_group,2,4096,f,None,None,,None,None,None,1\n"
	im, err := read(t, "aicb", importer.Options{},
		"[ pp_stage0: [rank0, rank1, rank2, rank3] ]\n"+head+row+"[ pp_stage1: [rank4, rank5, rank6, rank7] ]\n"+head+row+
			"CommType.all_reduce,CommGroup.pp_group,2,4096,f,None,None,,None,None,None,1\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(im.Jobs) != 2 || im.Jobs[1].Ranks != "4..7" || im.Ranks != 8 || !hasNote(im, "collectives of ranks of several stages are left out: 1") {
		t.Errorf("%+v %q", im.Jobs, im.Notes)
	}
	if messages, bytes := traffic(t, load(t, im)); messages != 16 || bytes != 4*2*4096 {
		t.Errorf("%d messages, %d bytes", messages, bytes)
	}
}

func TestGPUWorkloadErrors(t *testing.T) {
	head := "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count\n"
	for want, text := range map[string]string{
		"3 layers of 4; write the number of those that are there":                strings.Replace(simaiWorkload, "\n3\n", "\n4\n", 1),
		`:3: a computation is "x"; write 0 to`:                                   strings.Replace(simaiWorkload, "-1 1000", "-1 x", 1),
		"16 GPUs are no multiple of tensor 5 times":                              strings.Replace(simaiWorkload, "group: 4", "group: 5", 1),
		"policy HYBRID_DLRM; workloads of DATA, HYBRID_TRANSFORMER":              strings.Replace(simaiWorkload, "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_DLRM", 1),
		"0 ranks; write --world-size N":                                          head + "CommType.all_reduce,CommGroup.dp_group,4,8000,init,None,None,,None,None,None,1\n",
		`:3: msg_size is "many"; write a number`:                                 "[rank0 ~ rank3]\n" + head + "CommType.all_reduce,CommGroup.dp_group,4,many,init,None,None,,None,None,None,1\n",
		"all_reduce of dp_group has 3 ranks at a distance of 1, and there are 4": "[rank0 ~ rank3]\n" + head + "CommType.all_reduce,CommGroup.dp_group,3,64,init,None,None,,None,None,None,1\n",
		":6: there are more than 1048576 collectives":                            "[rank0 ~ rank3]\n" + head + strings.Repeat("CommType.all_reduce,CommGroup.dp_group,2,1125899906842624,init,None,None,,None,None,None,1\n", 4),
		"GPUs of a server are neither all below one switch":                      strings.Replace(simaiTopology, "0 12 400Gbps", "1 12 400Gbps", 1),
	} {
		kind, _, _ := importer.Recognise([]byte(text))
		if strings.HasPrefix(want, "GPUs of") {
			text = strings.Replace(text, "1 13 400Gbps", "0 13 400Gbps", 1)
		}
		_, err := read(t, kind, importer.Options{}, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
