// Package kubernetes checks the manifests that ethereal writes against Kubernetes' own types. It is a module of its
// own: the program needs none of them.
package kubernetes

import (
	"os"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// TestJob decodes the Job that package cluster's own test holds, refusing unknown and repeated keys.
func TestJob(t *testing.T) {
	text, err := os.ReadFile("../../testbed/cluster/testdata/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := batchv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object, kind, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	job, ok := object.(*batchv1.Job)
	if !ok {
		t.Fatalf("the manifest is a %v, want a Job", kind)
	}
	if job.Spec.CompletionMode == nil || *job.Spec.CompletionMode != batchv1.IndexedCompletion || *job.Spec.Completions != 8 {
		t.Errorf("completions %v, mode %v; want 8, Indexed", job.Spec.Completions, job.Spec.CompletionMode)
	}
	pod := job.Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.Volumes) != 1 || pod.Volumes[0].PersistentVolumeClaim == nil {
		t.Fatalf("%d containers, %d volumes; want one each, the volume a claim", len(pod.Containers), len(pod.Volumes))
	}
	if mem := pod.Containers[0].Resources.Limits.Memory(); mem.IsZero() || mem.Cmp(*pod.Containers[0].Resources.Requests.Memory()) != 0 {
		t.Errorf("memory limit %v, request %v; want the same", mem, pod.Containers[0].Resources.Requests.Memory())
	}
}
