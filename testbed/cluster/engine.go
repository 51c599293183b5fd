package cluster

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// Order describes the tasks of a sweep that Slurm or Kubernetes is to run: shards that write into one folder, and then
// a merge.
type Order struct {
	Name   string    // the sweep's name
	Dir    string    // folder of the results, absolute
	Merged string    // file that the merge writes, absolute
	Tasks  int       // number of tasks of the whole sweep
	Left   []int     // numbers of the tasks that have missing runs
	Need   Resources // resources of each task
	Bench  []string  // command of a task, without --shard
	Merge  []string  // command that merges the results
	// Options are #SBATCH options without their dashes, such as partition=long.
	Options     []string
	Image       string // container image
	VolumeClaim string // persistent volume claim that has the sweep and the folder
	Mount       string // where the volume is mounted, here and in the containers
}

// minutes rounds up.
func (n Resources) minutes() int { return int(math.Ceil(n.Seconds / 60)) }

// mebibytes rounds up.
func (n Resources) mebibytes() int64 { return (n.Bytes + 1<<20 - 1) >> 20 }

// slurmRanges writes numbers as Slurm takes them: 0-2,5.
func slurmRanges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if part := strconv.Itoa(numbers[i]); j > i {
			parts = append(parts, part+"-"+strconv.Itoa(numbers[j]))
		} else {
			parts = append(parts, part)
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// oneLine refuses what would end a line of a script or a comment, YAML's included, and what has no place in YAML.
func oneLine(words ...string) error {
	for _, w := range words {
		if !utf8.ValidString(w) {
			return fmt.Errorf("%q is not UTF-8: a manifest has no place for it", w)
		}
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }) {
			return fmt.Errorf("%q has a control character or the end of a line: a script has no place for it", w)
		}
	}
	return nil
}

var (
	arrayText = template.Must(template.New("array").Parse(`#!/bin/sh
# Runs of the sweep {{.Name}} that are missing, {{.Tasks}} tasks in all. Written by ethereal bench submit.
#SBATCH --job-name={{.Label}}
#SBATCH --array={{.Array}}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={{.CPUs}}
#SBATCH --mem={{.MiB}}M
#SBATCH --time={{.Minutes}}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={{.Dir}}/slurm-%a.log
{{- range .Options}}
#SBATCH --{{.}}
{{- end}}
exec {{.Bench}} --shard "$SLURM_ARRAY_TASK_ID/{{.Tasks}}"
`))
	mergeText = template.Must(template.New("merge").Parse(`#!/bin/sh
# Merges the results of the sweep {{.Name}} when its tasks have ended. It fails, and says what is missing, if they did not
# do all. Written by ethereal bench submit.
#SBATCH --job-name={{.Label}}-merge
#SBATCH --ntasks=1
#SBATCH --mem=1024M
#SBATCH --time=30
#SBATCH --open-mode=append
#SBATCH --output={{.Dir}}/slurm-merge.log
{{- range .Options}}
#SBATCH --{{.}}
{{- end}}
exec {{.Merge}}
`))
	// The last task to end does the merge: a Job has no dependence on another.
	jobText = template.Must(template.New("job").Parse(`# Runs of the sweep {{.Name}}, {{.Tasks}} tasks. A task whose runs are all there ends at once; the one that ends last merges.
# Written by ethereal bench submit. kubectl create -f FILE submits it, as often as something is missing.
apiVersion: batch/v1
kind: Job
metadata:
  generateName: {{.Label}}-
  labels:
    app.kubernetes.io/name: ethereal
    app.kubernetes.io/component: bench
spec:
  completionMode: Indexed
  completions: {{.Tasks}}
  parallelism: {{.Tasks}}
  backoffLimitPerIndex: 3
  maxFailedIndexes: {{.Tasks}}
  ttlSecondsAfterFinished: 86400
  podFailurePolicy:
    rules:
      - action: Ignore # a node that is drained or gone costs no attempt
        onPodConditions:
          - type: DisruptionTarget
            status: "True"
  template:
    metadata:
      labels:
        app.kubernetes.io/name: ethereal
        app.kubernetes.io/component: bench
    spec:
      restartPolicy: Never
      activeDeadlineSeconds: {{.Seconds}}
      automountServiceAccountToken: false
      containers:
        - name: bench
          image: {{.Image}}
          command:
{{- range .Words}}
            - {{.}}
{{- end}}
          env:
            - name: ETHEREAL_HOST
              valueFrom:
                fieldRef:
                  fieldPath: spec.nodeName
            - name: SHARD
              valueFrom:
                fieldRef:
                  fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
          resources:
            requests:
              cpu: "{{.CPUs}}"
              memory: {{.MiB}}Mi
            limits:
              cpu: "{{.CPUs}}"
              memory: {{.MiB}}Mi
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
          volumeMounts:
            - name: results
              mountPath: {{.Mount}}
      volumes:
        - name: results
          persistentVolumeClaim:
            claimName: {{.Claim}}
`))
)

// expandTemplate executes a template.
func (o Order) expandTemplate(t *template.Template) ([]byte, error) {
	if err := oneLine(slices.Concat([]string{o.Name, o.Dir, o.Image, o.VolumeClaim, o.Mount}, o.Bench, o.Merge, o.Options)...); err != nil {
		return nil, err
	}
	words := slices.Concat(o.Bench, []string{"--merge", o.Merged})
	for i, w := range words {
		words[i] = strconv.Quote(strings.ReplaceAll(w, "$", "$$")) // a double-quoted scalar of YAML, no variable of Kubernetes'
	}
	words = append(words, "--shard", strconv.Quote("$(SHARD)/"+strconv.Itoa(o.Tasks)))
	var out bytes.Buffer
	err := t.Execute(&out, map[string]any{
		"Name": o.Name, "Label": kubernetesName(o.Name), "Dir": o.Dir, "Tasks": o.Tasks, "Array": slurmRanges(o.Left),
		"CPUs": o.Need.CPUs, "MiB": o.Need.mebibytes(), "Minutes": o.Need.minutes(), "Seconds": 60 * o.Need.minutes(),
		"Bench": report.QuoteShell(o.Bench), "Merge": report.QuoteShell(o.Merge), "Words": words, "Options": o.Options,
		"Image": strconv.Quote(o.Image), "Claim": strconv.Quote(o.VolumeClaim), "Mount": strconv.Quote(o.Mount),
	})
	return out.Bytes(), err
}

// kubernetesName converts a name to a valid Kubernetes name, with room for a suffix.
func kubernetesName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	name = "ethereal-" + strings.Trim(name, "-")
	return strings.TrimRight(name[:min(len(name), 40)], "-")
}

// Names of the files that [Order.Slurm] and [Order.Kubernetes] write into the folder.
const (
	ArrayFile = "array.sbatch"
	MergeFile = "merge.sbatch"
	JobFile   = "job.yaml"
)

// Slurm writes a job array of the unfinished tasks, and the merge that depends on it.
func (o Order) Slurm() error {
	if strings.ContainsAny(o.Dir, " %\\'\"#") {
		return fmt.Errorf("--dir: %q has a space or one of %%, \\, ', \" and #, which #SBATCH --output does not take; name another folder", o.Dir)
	}
	for name, t := range map[string]*template.Template{ArrayFile: arrayText, MergeFile: mergeText} {
		text, err := o.expandTemplate(t)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(o.Dir, name), text, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Kubernetes writes an Indexed Job of all tasks.
func (o Order) Kubernetes() error {
	text, err := o.expandTemplate(jobText)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(o.Dir, JobFile), text, 0o644)
}
