package kit

import (
	"context"
	"errors"
	"fmt"
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

// Query is a read of the object.
func (r Ref) Query() *api.QueryOptions { return &api.QueryOptions{Namespace: r.Namespace} }

// Write is a write of the object.
func (r Ref) Write() *api.WriteOptions { return &api.WriteOptions{Namespace: r.Namespace} }

// candidate is an object that an argument may mean.
type candidate struct {
	Ref
	row []string
}

// choice is what is needed to choose among candidates.
type choice struct {
	kind, arg string
	header    []string
	list      string // the command that lists the objects
}

// choose takes the exact match, or the only candidate.
func (e *Env) choose(c choice, access Access, found []candidate) (Ref, error) {
	var exact []candidate
	for _, f := range found {
		if f.ID == c.arg {
			exact = append(exact, f)
		}
	}
	if len(exact) > 0 {
		found = exact
	}
	switch {
	case len(found) == 0:
		code := ExitError
		if access == Change {
			code = ExitMissing
		}
		return Ref{}, &Exit{Code: code, Err: fault.WithHint(
			fault.New(fault.NotFound, "", "", fmt.Sprintf("there is no %s %q", c.kind, c.arg)), `"`+c.list+`" lists them`)}
	case len(found) > 1:
		rows := make([][]string, len(found))
		for i, f := range found {
			rows[i] = f.row
		}
		e.Err.Table(c.header, rows)
		return Ref{}, fault.WithHint(fault.New(fault.Invalid, "", "", fmt.Sprintf("%q could mean each of these %d %ss", c.arg, len(found), c.kind)),
			"write more of the id, or the namespace with -namespace")
	}
	if access == Change && found[0].ID != c.arg {
		e.Err.Printf("%q means %s %q\n", c.arg, c.kind, found[0].ID)
	}
	return found[0].Ref, nil
}

// Job finds the job that an argument means: the id itself, or else the only one that begins so.
func (e *Env) Job(ctx context.Context, arg string, access Access) (Ref, error) {
	c, err := e.Client()
	if err != nil {
		return Ref{}, err
	}
	list, _, err := c.Jobs().List(ctx, &api.QueryOptions{Prefix: arg})
	if err != nil {
		if denied(err) {
			return Ref{ID: arg}, nil // whoever may not list may still name
		}
		return Ref{}, Doing(err, "find", "job", arg)
	}
	var found []candidate
	for _, j := range list {
		if strings.HasPrefix(j.ID, arg) {
			ns := j.Namespace
			if ns == "" && j.JobSummary != nil {
				ns = j.JobSummary.Namespace
			}
			found = append(found, candidate{Ref{j.ID, ns}, []string{j.ID, ns, j.Type, j.Status}})
		}
	}
	return e.choose(choice{"job", arg, []string{"ID", "Namespace", "Type", "Status"}, "berth job status"}, access, found)
}

func denied(err error) bool {
	var status *api.StatusError
	return errors.As(err, &status) && status.Code == 403
}

// hexPrefix is what an agent is asked for when an argument begins a UUID, and how candidates are compared.
func hexPrefix(kind, arg string) (string, error) {
	plain := strings.ToLower(strings.ReplaceAll(arg, "-", ""))
	if len(plain) < 2 {
		return "", fault.WithHint(fault.New(fault.Invalid, "", "", fmt.Sprintf("%q is too short to name one %s", arg, kind)), "write at least two characters of its id")
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
	if ids.IsUUID(arg) {
		return Ref{ID: arg}, nil
	}
	plain, err := hexPrefix("allocation", arg)
	if err != nil {
		return Ref{}, err
	}
	c, err := e.Client()
	if err != nil {
		return Ref{}, err
	}
	list, _, err := c.Allocations().List(ctx, &api.QueryOptions{Prefix: asked(plain), Namespace: "*"})
	if err != nil {
		return Ref{}, Doing(err, "find", "allocation", arg)
	}
	var found []candidate
	for _, a := range list {
		if matches(a.ID, plain) {
			found = append(found, candidate{Ref{a.ID, a.Namespace}, []string{a.ID, a.JobID, a.TaskGroup, a.NodeName, a.ClientStatus}})
		}
	}
	return e.choose(choice{"allocation", arg, []string{"ID", "Job ID", "Task Group", "Node Name", "Status"}, "berth job allocs <job>"}, access, found)
}

// Eval finds the evaluation that an argument means.
func (e *Env) Eval(ctx context.Context, arg string) (Ref, error) {
	if ids.IsUUID(arg) {
		return Ref{ID: arg}, nil
	}
	plain, err := hexPrefix("evaluation", arg)
	if err != nil {
		return Ref{}, err
	}
	c, err := e.Client()
	if err != nil {
		return Ref{}, err
	}
	list, _, err := c.Evaluations().List(ctx, &api.QueryOptions{Prefix: asked(plain), Namespace: "*"})
	if err != nil {
		return Ref{}, Doing(err, "find", "evaluation", arg)
	}
	var found []candidate
	for _, v := range list {
		if matches(v.ID, plain) {
			found = append(found, candidate{Ref{v.ID, v.Namespace}, []string{v.ID, v.JobID, v.TriggeredBy, v.Status}})
		}
	}
	return e.choose(choice{"evaluation", arg, []string{"ID", "Job ID", "Triggered By", "Status"}, "berth eval list"}, Read, found)
}

// Node finds the node that an argument means: a prefix of its id, or its whole name.
func (e *Env) Node(ctx context.Context, arg string, access Access) (Ref, error) {
	if ids.IsUUID(arg) {
		return Ref{ID: arg}, nil
	}
	c, err := e.Client()
	if err != nil {
		return Ref{}, err
	}
	list, _, err := c.Nodes().List(ctx, nil)
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
	return e.choose(choice{"node", arg, []string{"ID", "Name", "DC", "Status"}, "berth node status"}, access, found)
}

// Volume finds the volume that an argument means.
func (e *Env) Volume(ctx context.Context, arg string, access Access) (Ref, error) {
	c, err := e.Client()
	if err != nil {
		return Ref{}, err
	}
	list, _, err := c.Volumes().List(ctx, &api.QueryOptions{Prefix: arg})
	if err != nil {
		return Ref{}, Doing(err, "find", "volume", arg)
	}
	var found []candidate
	for _, v := range list {
		if strings.HasPrefix(v.ID, arg) {
			found = append(found, candidate{Ref{v.ID, v.Namespace}, []string{v.ID, v.Namespace, v.PluginID, Yes(v.Schedulable)}})
		}
	}
	return e.choose(choice{"volume", arg, []string{"ID", "Namespace", "Plugin ID", "Schedulable"}, "berth volume status"}, access, found)
}

// Plugin finds the plugin that an argument means.
func (e *Env) Plugin(ctx context.Context, arg string) (Ref, error) {
	c, err := e.Client()
	if err != nil {
		return Ref{}, err
	}
	list, _, err := c.Plugins().List(ctx, &api.QueryOptions{Prefix: arg})
	if err != nil {
		return Ref{}, Doing(err, "find", "plugin", arg)
	}
	var found []candidate
	for _, p := range list {
		if strings.HasPrefix(p.ID, arg) {
			found = append(found, candidate{Ref{ID: p.ID}, []string{p.ID, p.Provider}})
		}
	}
	return e.choose(choice{"plugin", arg, []string{"ID", "Provider"}, "berth plugin status"}, Read, found)
}
