package kit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
)

// Access says what a command does with the object that an argument names. One that changes it echoes which object a
// prefix has come to mean.
type Access bool

// The accesses.
const (
	Read   Access = false
	Change Access = true
)

// Ref names an object in its namespace.
type Ref struct{ ID, Namespace string }

// Typed is how the arguments of a command name the object.
func (r Ref) Typed() string { return ids.Typed(ids.Namespace(r.Namespace), r.ID) }

// Query is a read of the object.
func (r Ref) Query() *api.QueryOptions { return &api.QueryOptions{Namespace: r.Namespace} }

// Write is a write of the object.
func (r Ref) Write() *api.WriteOptions { return &api.WriteOptions{Namespace: r.Namespace} }

// candidate is an object that an argument may mean.
type candidate struct {
	Ref
	row []string
}

// choice is what is needed to choose among the objects of one kind.
type choice struct {
	kind, arg string
	access    Access
	header    []string
	list      string // the command that lists the objects
	// whole: what changes an object needs its whole id, for the object is data and a wrong guess loses it.
	whole bool
	uuids bool // the ids are UUIDs
}

// find reads the objects that an argument may mean, and chooses. row gives an object's namespace and its row in the
// table of candidates, which begins with the id.
func find[T any](
	ctx context.Context, e *Env, c choice,
	read func(context.Context, *api.QueryOptions) ([]T, *api.QueryMeta, error), row func(T) (string, []string),
) (Ref, error) {
	o := &api.QueryOptions{Prefix: c.arg}
	fits := func(id string) bool { return strings.HasPrefix(id, c.arg) }
	if c.uuids {
		if ids.IsUUID(c.arg) {
			return Ref{ID: c.arg}, nil
		}
		plain, err := hexPrefix(c.kind, c.arg)
		if err != nil {
			return Ref{}, err
		}
		o = &api.QueryOptions{Prefix: asked(plain), Namespace: "*"}
		fits = func(id string) bool { return matches(id, plain) }
	}
	list, _, err := read(ctx, o)
	if err != nil {
		return Ref{}, Doing(err, "find", c.kind, c.arg)
	}
	var found []candidate
	for _, one := range list {
		if namespace, cells := row(one); fits(cells[0]) {
			found = append(found, candidate{Ref{cells[0], namespace}, cells})
		}
	}
	return e.choose(c, found)
}

// choose takes the exact match, or the only candidate.
func (e *Env) choose(c choice, found []candidate) (Ref, error) {
	var exact []candidate
	for _, f := range found {
		if f.ID == c.arg {
			exact = append(exact, f)
		}
	}
	near := found
	if len(exact) > 0 || c.whole && c.access == Change {
		found = exact
	}
	switch {
	case len(found) == 0:
		return Ref{}, Fail(fault.NotFound, c.hint(near), "there is no %s %q", c.kind, c.arg)
	case len(found) > 1:
		rows := make([][]string, len(found))
		for i, f := range found {
			rows[i] = f.row
		}
		e.Err.Table(c.header, rows)
		return Ref{},
			Fail(fault.Invalid, "write more of the id, or the namespace with -namespace",
				"%q could mean each of these %d %ss", c.arg, len(found), c.kind)
	}
	if c.access == Change && found[0].ID != c.arg {
		e.Err.Printf("%q means %s %q\n", c.arg, c.kind, found[0].ID)
	}
	return found[0].Ref, nil
}

// hint tells where the right id is: those that begin as the argument does, or the list.
func (c choice) hint(near []candidate) string {
	if len(near) == 0 {
		return `"` + c.list + `" lists them`
	}
	const few = 3
	var names []string
	for _, n := range near[:min(few, len(near))] {
		names = append(names, strconv.Quote(n.ID))
	}
	more := ""
	if len(near) > few {
		more = fmt.Sprintf(" and %d more", len(near)-few)
	}
	return "give the whole id; there is " + strings.Join(names, ", ") + more
}

// Job finds the job that an argument means: the id itself, or else the only one that begins so.
func (e *Env) Job(ctx context.Context, arg string, access Access) (Ref, error) {
	c := choice{
		kind:   "job",
		arg:    arg,
		access: access,
		header: []string{"ID", "Namespace", "Type", "Status"},
		list:   "berth job status",
	}
	ref, err := find(ctx, e, c, e.client.Jobs().List, func(j *api.JobListStub) (string, []string) {
		ns := j.Namespace
		if ns == "" && j.JobSummary != nil {
			ns = j.JobSummary.Namespace
		}
		return ns, []string{j.ID, ns, j.Type, j.Status}
	})
	if denied(err) {
		return Ref{ID: arg}, nil // whoever may not list may still name
	}
	return ref, err
}

func denied(err error) bool {
	var status *api.StatusError
	return errors.As(err, &status) && status.Code == 403
}

// hexPrefix is what an agent is asked for when an argument begins a UUID, and how candidates are compared.
func hexPrefix(kind, arg string) (string, error) {
	plain := strings.ToLower(strings.ReplaceAll(arg, "-", ""))
	if len(plain) < 2 {
		return "", Fail(fault.Invalid, "write at least two characters of its id", "%q is too short to name one %s", arg,
			kind)
	}
	return plain, nil
}

// asked is the part of a prefix that every agent accepts: an even number of digits, hyphens where a UUID has them.
func asked(plain string) string {
	plain = plain[:len(plain)-len(plain)%2]
	var b strings.Builder
	for i, r := range plain {
		if i == 8 || i == 12 || i == 16 || i == 20 {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func matches(id, plain string) bool {
	return strings.HasPrefix(strings.ReplaceAll(id, "-", ""), plain)
}

// Alloc finds the allocation that an argument means.
func (e *Env) Alloc(ctx context.Context, arg string, access Access) (Ref, error) {
	c := choice{
		kind:   "allocation",
		arg:    arg,
		access: access,
		header: []string{"ID", "Job ID", "Task Group", "Node Name", "Status"},
		list:   "berth job allocs <job>",
		uuids:  true,
	}
	return find(ctx, e, c, e.client.Allocations().List, func(a *api.AllocationListStub) (string, []string) {
		return a.Namespace, []string{a.ID, a.JobID, a.TaskGroup, a.NodeName, a.Phase()}
	})
}

// Eval finds the evaluation that an argument means.
func (e *Env) Eval(ctx context.Context, arg string) (Ref, error) {
	c := choice{
		kind:   "evaluation",
		arg:    arg,
		header: []string{"ID", "Job ID", "Triggered By", "Status"},
		list:   "berth eval list",
		uuids:  true,
	}
	return find(ctx, e, c, e.client.Evaluations().List, func(v *api.Evaluation) (string, []string) {
		return v.Namespace, []string{v.ID, v.JobID, v.TriggeredBy, v.Status}
	})
}

// Deployment finds the deployment that an argument means.
func (e *Env) Deployment(ctx context.Context, arg string, access Access) (Ref, error) {
	c := choice{
		kind:   "deployment",
		arg:    arg,
		access: access,
		header: []string{"ID", "Job ID", "Job Version", "Status"},
		list:   "berth deployment list",
		uuids:  true,
	}
	return find(ctx, e, c, e.client.Deployments().List, func(d *api.Deployment) (string, []string) {
		return d.Namespace, []string{d.ID, d.JobID, strconv.FormatUint(d.JobVersion, 10), d.Status}
	})
}

// ScalingPolicy finds the scaling policy that an argument means.
func (e *Env) ScalingPolicy(ctx context.Context, arg string) (Ref, error) {
	c := choice{
		kind:   "scaling policy",
		arg:    arg,
		header: []string{"ID", "Job ID", "Task Group", "Type"},
		list:   "berth scaling policy list",
		uuids:  true,
	}
	list := func(ctx context.Context, o *api.QueryOptions) ([]*api.ScalingPolicyListStub, *api.QueryMeta, error) {
		return e.client.Jobs().Policies(ctx, "", "", o)
	}
	return find(ctx, e, c, list, func(p *api.ScalingPolicyListStub) (string, []string) {
		return p.Target["Namespace"], []string{p.ID, p.Target["Job"], p.Target["Group"], p.Type}
	})
}

// Node finds the node that an argument means: a prefix of its id, or its whole name.
func (e *Env) Node(ctx context.Context, arg string, access Access) (Ref, error) {
	if ids.IsUUID(arg) {
		return Ref{ID: arg}, nil
	}
	list, _, err := e.client.Nodes().List(ctx, nil)
	if err != nil {
		return Ref{}, Doing(err, "find", "node", arg)
	}
	plain, short := hexPrefix("node", arg)
	var found, named []candidate
	for _, n := range list {
		one := candidate{Ref{ID: n.ID}, []string{n.ID, n.Name, n.Datacenter, n.Status}}
		if n.Name == arg {
			named = append(named, one)
		}
		if short == nil && matches(n.ID, plain) {
			found = append(found, one)
		}
	}
	if len(named) > 0 {
		found = named
	}
	if len(found) == 0 && short != nil {
		return Ref{}, short
	}
	return e.choose(choice{
		kind:   "node",
		arg:    arg,
		access: access,
		header: []string{"ID", "Name", "DC", "Status"},
		list:   "berth node status",
	}, found)
}

// Volume finds the volume that an argument means.
func (e *Env) Volume(ctx context.Context, arg string, access Access) (Ref, error) {
	c := choice{
		kind:   "volume",
		arg:    arg,
		access: access,
		header: []string{"ID", "Namespace", "Plugin ID", "Schedulable"},
		list:   "berth volume status",
		whole:  true,
	}
	return find(ctx, e, c, e.client.Volumes().List, func(v *api.CSIVolumeListStub) (string, []string) {
		return v.Namespace, []string{v.ID, v.Namespace, v.PluginID, Yes(v.Schedulable)}
	})
}

// Plugin finds the plugin that an argument means.
func (e *Env) Plugin(ctx context.Context, arg string) (Ref, error) {
	c := choice{kind: "plugin", arg: arg, header: []string{"ID", "Provider"}, list: "berth plugin status"}
	return find(ctx, e, c, e.client.Plugins().List, func(p *api.CSIPluginListStub) (string, []string) {
		return "", []string{p.ID, p.Provider}
	})
}
