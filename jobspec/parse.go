package jobspec

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"berth/api"
	"berth/jobspec/functions"
	"berth/jobspec/hclfile"
	"berth/jobspec/jobjson"
	"berth/jobspec/near"
	"berth/jobspec/support"

	"github.com/hashicorp/hcl/v2"
)

// ParseConfig says what to parse and where its variables come from.
type ParseConfig struct {
	Path   string // name of the file, for messages; relative paths in it start at its directory
	Source []byte

	Vars     map[string]string // -var name=value
	VarFiles []VarFile         // -var-file, in order
	Env      []string          // the environment as NAME=value; only NOMAD_VAR_… is read

	// Strict makes it an error to give a value to a variable that the file does not declare.
	Strict bool
	// AllowFileFunctions lets expressions read the author's machine. A server never sets it.
	AllowFileFunctions bool
	// AnyFeature takes members that are not built yet, for whoever asks a server: it may be newer than this program.
	AnyFeature bool
	// AnyName takes two groups, tasks or ports of one name, for whoever only translates: registration refuses them.
	AnyName bool
	// MaxSize bounds the document in bytes; 0 means hclfile.MaxSource.
	MaxSize int
}

// VarFile is a file of variables. A nil Source is read from Path, where files may be read.
type VarFile struct {
	Path   string
	Source []byte
}

// Parse reads a job file: HCL2, or JSON when the first letter is a brace: a job as servers take it (bare, or as the
// member "Job"), or HCL's JSON syntax (with the member "job").
// Unset members stay nil: defaults are the server's. Members that are not built yet are refused by name, unless
// AnyFeature leaves that to a server. The error is an *Error that lists every problem with its place.
func Parse(cfg ParseConfig) (*api.Job, error) {
	r := hclfile.NewReport()
	if hclfile.IsJSON(cfg.Source) && !isHCLJSON(cfg.Source) {
		job := parseJSONJob(r, &cfg)
		return job, r.Err()
	}
	job := parseJob(r, &cfg)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return job, nil
}

func parseJSONJob(r *hclfile.Report, cfg *ParseConfig) *api.Job {
	limit := cfg.MaxSize
	if limit <= 0 {
		limit = hclfile.MaxSource
	}
	if len(cfg.Source) > limit {
		r.AddFile(cfg.Path, "the document has %d bytes, more than the %d that are allowed", len(cfg.Source), limit)
		return nil
	}
	if len(cfg.Vars) > 0 || len(cfg.VarFiles) > 0 {
		r.AddFile(cfg.Path, "a job in JSON takes no variables; leave -var and -var-file out")
		return nil
	}
	job, unknown, err := jobjson.Decode(bytes.TrimPrefix(cfg.Source, []byte("\xef\xbb\xbf")))
	var placed *jobjson.PlacedError
	switch {
	case errors.As(err, &placed):
		line := hcl.Pos{Line: placed.Line, Column: 1}
		r.Add(hcl.Range{Filename: cfg.Path, Start: line}, "%s", placed.Text)
		return nil
	case err != nil:
		r.AddFile(cfg.Path, "%s", err)
		return nil
	}
	for _, u := range unknown {
		r.AddFile(cfg.Path, "a job has no member %s", u)
	}
	for _, f := range unsupported(job, cfg) {
		r.AddFile(cfg.Path, "%s (%s)", f, f.Path)
	}
	if r.Failed() {
		return nil
	}
	return job
}

// jobBlock is a job with what is pushed down to groups and tasks.
type jobBlock struct {
	Label string `hcl:"id,label"`
	api.Job
	TaskGroups []*groupBlock `hcl:"group,block"`
	Tasks      []*api.Task   `hcl:"task,block"`
	Vault      *api.Vault    `hcl:"vault,block"`
	Consul     *jobConsul    `hcl:"consul,block"`
	Secrets    []*api.Secret `hcl:"secret,block"`
}

// groupBlock is a group with what is pushed down to tasks.
type groupBlock struct {
	api.TaskGroup
	Vault   *api.Vault    `hcl:"vault,block"`
	Secrets []*api.Secret `hcl:"secret,block"`
}

// jobConsul is what a job may say about Consul.
type jobConsul struct {
	Namespace string `hcl:"namespace"`
}

// parseJob decodes a job and refuses by name and place what is not built.
func parseJob(r *hclfile.Report, cfg *ParseConfig) *api.Job {
	job, at := decodeJob(r, cfg)
	if job == nil {
		return nil
	}
	places := at.Paths(job)
	fields := unsupported(job, cfg)
	if r.Failed() { // no server will be asked
		fields = support.Unsupported(job)
	}
	for _, f := range fields {
		rng, ok := hclfile.Nearest(places, f.Path)
		if !ok {
			rng = hcl.Range{Filename: cfg.Path}
		}
		r.Add(rng, "%s", f)
	}
	return job
}

// unsupported lists what is not built yet, unless a server is to judge that.
func unsupported(job *api.Job, cfg *ParseConfig) []support.Field {
	if cfg.AnyFeature {
		return nil
	}
	return support.Unsupported(job)
}

func decodeJob(r *hclfile.Report, cfg *ParseConfig) (*api.Job, hclfile.Positions) {
	doc := open(r, cfg)
	if doc == nil {
		return nil, nil
	}
	base := &hcl.EvalContext{Functions: functions.For(filepath.Dir(cfg.Path), cfg.AllowFileFunctions)}
	sc := newScope(r, doc, cfg, base)
	if sc == nil {
		return nil, nil
	}
	d := hclfile.NewDecoder(r, doc, jobSpecials)
	for _, a := range hclfile.SortedAttrs(doc.Body) {
		r.Add(a.NameRange, "a job file has no attribute %q at its top; put it inside job \"…\" { … }", a.Name)
	}
	jb := findJob(d, sc)
	if jb == nil {
		return nil, nil
	}
	job := pushDown(d, jb)
	if !cfg.AnyName {
		uniqueNames(d, job)
	}
	return job, d.At
}

// findJob decodes the one job block of the file.
func findJob(d *hclfile.Decoder, sc *hclfile.Scope) *jobBlock {
	var found *jobBlock
	for _, it := range d.Expand(d.Source.Body, sc) {
		switch it.Type {
		case "variable", "variables", "locals":
		case "job":
			if found != nil {
				d.Report.Add(it.Range, "the file has two jobs; write one job per file")
				return nil
			}
			found = &jobBlock{}
			d.Into(it, reflect.ValueOf(found).Elem())
		default:
			d.Report.Add(it.Range, "a job file has no block %q%s", it.Type,
				near.DidYouMean(it.Type, []string{"job", "variable", "variables", "locals"}))
		}
	}
	if found == nil && !d.Report.Failed() {
		d.Report.AddFile(d.Source.Path, "the file has no job \"…\" { … } block")
	}
	return found
}

// pushDown gives the job its id and name and moves what stands above to the tasks it is meant for.
func pushDown(d *hclfile.Decoder, jb *jobBlock) *api.Job {
	job := &jb.Job
	d.At.Put(reflect.ValueOf(job).Elem(), "", d.At[jb][""])
	if job.ID == nil {
		job.ID = &jb.Label
	}
	if job.Name == nil {
		name := *job.ID
		job.Name = &name
	}
	if jb.Consul != nil && jb.Consul.Namespace != "" {
		job.ConsulNamespace = &jb.Consul.Namespace
		d.At.Put(reflect.ValueOf(job).Elem(), "ConsulNamespace", d.At[jb.Consul][""])
	}
	for _, g := range jb.TaskGroups {
		group := &g.TaskGroup
		d.At.Put(reflect.ValueOf(group).Elem(), "", d.At[g][""])
		for _, task := range group.Tasks {
			pushVault(task, g.Vault, g.Secrets)
		}
		job.TaskGroups = append(job.TaskGroups, group)
	}
	for _, task := range jb.Tasks {
		group := &api.TaskGroup{Name: task.Name, Tasks: []*api.Task{task}}
		job.TaskGroups = append(job.TaskGroups, group)
	}
	for _, group := range job.TaskGroups {
		for _, task := range group.Tasks {
			pushVault(task, jb.Vault, jb.Secrets)
		}
	}
	return job
}

func pushVault(task *api.Task, vault *api.Vault, secrets []*api.Secret) {
	if task.Vault == nil {
		task.Vault = vault
	}
	task.Secrets = append(task.Secrets, secrets...)
}

// uniqueNames refuses two groups, two tasks of a group, or two ports of a network of one name, where the place is still
// known.
func uniqueNames(d *hclfile.Decoder, job *api.Job) {
	groups := map[string]bool{}
	for _, g := range job.TaskGroups {
		if groups[g.Name] {
			d.Report.Add(d.At[g][""], "the job has two groups named %q; rename one", g.Name)
		}
		groups[g.Name] = true
		uniquePorts(d, g.Networks)
		tasks := map[string]bool{}
		for _, t := range g.Tasks {
			if tasks[t.Name] {
				d.Report.Add(d.At[t][""], "the group %q has two tasks named %q; rename one", g.Name, t.Name)
			}
			tasks[t.Name] = true
			if t.Resources != nil {
				uniquePorts(d, t.Resources.Networks)
			}
		}
	}
}

func uniquePorts(d *hclfile.Decoder, networks []*api.NetworkResource) {
	for _, n := range networks {
		places := map[string][]hcl.Range{} // by label
		note := func(list string, ports []api.Port) {
			for i, p := range ports {
				places[p.Label] = append(places[p.Label], d.At[n][fmt.Sprintf("%s[%d]", list, i)])
			}
		}
		note("ReservedPorts", n.ReservedPorts)
		note("DynamicPorts", n.DynamicPorts)
		for _, label := range slices.Sorted(maps.Keys(places)) {
			all := places[label]
			slices.SortFunc(all, func(a, b hcl.Range) int { return a.Start.Byte - b.Start.Byte })
			for _, rng := range all[1:] {
				d.Report.Add(rng, "the network has two ports with the label %q; rename one", label)
			}
		}
	}
}
