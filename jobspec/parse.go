package jobspec

import (
	"bytes"
	"path/filepath"
	"reflect"

	"berth/api"

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
	// MaxSize bounds the document in bytes; 0 means MaxSource.
	MaxSize int
}

// VarFile is a file of variables. A nil Source is read from Path, where files may be read.
type VarFile struct {
	Path   string
	Source []byte
}

// Parse reads a job file: HCL2, or a job in JSON (bare, or as the member "Job") when the first letter is a brace.
// Unset members stay nil: defaults are the server's. Members that are not built yet are refused by name. The error is
// an *Error that lists every problem with its place.
func Parse(cfg ParseConfig) (*api.Job, error) {
	r := newReport()
	if isJSON(cfg.Source) {
		job := parseJSONJob(r, &cfg)
		return job, r.err()
	}
	job := parseJob(r, &cfg)
	if err := r.err(); err != nil {
		return nil, err
	}
	return job, nil
}

func isJSON(src []byte) bool {
	src = bytes.TrimSpace(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")))
	return len(src) > 0 && src[0] == '{'
}

func parseJSONJob(r *report, cfg *ParseConfig) *api.Job {
	limit := cfg.MaxSize
	if limit <= 0 {
		limit = MaxSource
	}
	if len(cfg.Source) > limit {
		r.addFile(cfg.Path, "the document has %d bytes, more than the %d that are allowed", len(cfg.Source), limit)
		return nil
	}
	if len(cfg.Vars) > 0 || len(cfg.VarFiles) > 0 {
		r.addFile(cfg.Path, "a job in JSON takes no variables; leave -var and -var-file out")
		return nil
	}
	job, unknown, err := api.DecodeJobStrict(bytes.TrimPrefix(cfg.Source, []byte("\xef\xbb\xbf")))
	if err != nil {
		r.addFile(cfg.Path, "%s", err)
		return nil
	}
	for _, name := range unknown {
		r.addFile(cfg.Path, "a job has no member %s", name)
	}
	for _, f := range api.Unsupported(job) {
		r.addFile(cfg.Path, "%s (%s)", f, f.Path)
	}
	if r.failed() {
		return nil
	}
	return job
}

// jobFile is the top of a job file, but for variables and locals.
type jobFile struct {
	Job *jobBlock `hcl:"job,block"`
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
func parseJob(r *report, cfg *ParseConfig) *api.Job {
	job, at := decodeJob(r, cfg)
	if job == nil || r.failed() {
		return nil
	}
	places := at.paths(job)
	for _, f := range api.Unsupported(job) {
		rng, ok := nearest(places, f.Path)
		if !ok {
			rng = hcl.Range{Filename: cfg.Path}
		}
		r.add(rng, "%s", f)
	}
	return job
}

func decodeJob(r *report, cfg *ParseConfig) (*api.Job, positions) {
	doc := openDocument(r, cfg.Path, cfg.Source, cfg.MaxSize, nil)
	if doc == nil {
		return nil, nil
	}
	base := &hcl.EvalContext{Functions: functionsFor(filepath.Dir(cfg.Path), cfg.AllowFileFunctions)}
	sc := newScope(r, doc, cfg, base)
	if sc == nil {
		return nil, nil
	}
	d := newDecoder(r, doc, jobSpecials)
	for _, a := range sortedAttrs(doc.body) {
		r.add(a.NameRange, "a job file has no attribute %q at its top; put it inside job \"…\" { … }", a.Name)
	}
	jb := d.findJob(sc)
	if jb == nil || r.failed() {
		return nil, nil
	}
	return d.pushDown(jb), d.at
}

// findJob decodes the one job block of the file.
func (d *decoder) findJob(sc *scope) *jobBlock {
	var found *jobBlock
	for _, it := range d.expand(d.doc.body, sc) {
		switch it.typ {
		case "variable", "variables", "locals":
		case "job":
			if found != nil {
				d.report.add(it.rng, "the file has two jobs; write one job per file")
				return nil
			}
			found = &jobBlock{}
			d.into(it, reflect.ValueOf(found).Elem())
		default:
			d.report.add(it.rng, "a job file has no block %q%s", it.typ, didYouMean(it.typ, []string{"job", "variable", "variables", "locals"}))
		}
	}
	if found == nil && !d.report.failed() {
		d.report.addFile(d.doc.path, "the file has no job \"…\" { … } block")
	}
	return found
}

// pushDown gives the job its id and name and moves what stands above to the tasks it is meant for.
func (d *decoder) pushDown(jb *jobBlock) *api.Job {
	job := &jb.Job
	d.at.put(reflect.ValueOf(job).Elem(), "", d.at[jb][""])
	if job.ID == nil {
		job.ID = &jb.Label
	}
	if job.Name == nil {
		name := *job.ID
		job.Name = &name
	}
	if jb.Consul != nil && jb.Consul.Namespace != "" {
		job.ConsulNamespace = &jb.Consul.Namespace
		d.at.put(reflect.ValueOf(job).Elem(), "ConsulNamespace", d.at[jb.Consul][""])
	}
	for _, g := range jb.TaskGroups {
		group := &g.TaskGroup
		d.at.put(reflect.ValueOf(group).Elem(), "", d.at[g][""])
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
	d.uniqueNames(job)
	return job
}

func pushVault(task *api.Task, vault *api.Vault, secrets []*api.Secret) {
	if task.Vault == nil {
		task.Vault = vault
	}
	task.Secrets = append(task.Secrets, secrets...)
}

// uniqueNames refuses two groups, or two tasks of a group, of one name, where the place is still known.
func (d *decoder) uniqueNames(job *api.Job) {
	groups := map[string]bool{}
	for _, g := range job.TaskGroups {
		if groups[g.Name] {
			d.report.add(d.at[g][""], "the job has two groups named %q; rename one", g.Name)
		}
		groups[g.Name] = true
		tasks := map[string]bool{}
		for _, t := range g.Tasks {
			if tasks[t.Name] {
				d.report.add(d.at[t][""], "the group %q has two tasks named %q; rename one", g.Name, t.Name)
			}
			tasks[t.Name] = true
		}
	}
}
