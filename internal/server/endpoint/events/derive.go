package events

import (
	"slices"

	"berth/internal/base/ids"
	"berth/internal/derive/progress"
	"berth/internal/derive/service"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/server/state/changes"
	"berth/internal/server/views"
	"berth/internal/wire"
)

// derivation makes the events of a batch. What the state says beside the objects themselves, such as the status of a
// job, is of the time when the first who asks for the batch is there.
type derivation struct {
	s     *state.Snap
	batch *changes.Batch
	views *views.Reader
	out   []*wire.Event
	bytes int
}

// derive makes the events of a batch, and says how many bytes they take.
func derive(s *state.Snap, b *changes.Batch) ([]*wire.Event, int) {
	d := &derivation{s: s, batch: b, views: views.Of(s, nil)}
	for _, c := range b.Changes {
		d.change(c)
	}
	return d.out, d.bytes
}

func (d *derivation) add(of string, removed bool, e wire.Event, o wire.EventObject) {
	t := kinds[of]
	e.Topic, e.Type = t.name, t.called(d.batch.Cause, removed)
	e.Removed = removed
	data, err := wire.Encode(&o)
	if err != nil {
		panic("an object that the state holds cannot be encoded: " + err.Error())
	}
	e.Object = data
	d.out = append(d.out, &e)
	d.bytes += len(data)
}

func (d *derivation) change(c *changes.Change) {
	gone := c.Now == nil
	switch o := c.Object().(type) {
	case *job.Job:
		v, _ := views.JobView(d.s, nil, o)
		d.add(c.Table, gone, wire.Event{Key: string(o.ID), Namespace: o.Namespace}, wire.EventObject{Job: v})
	case *eval.Eval:
		d.add(c.Table, gone, wire.Event{
			Key:       string(o.ID),
			Keys:      filled(string(o.Job), string(o.Deployment)),
			Namespace: o.Namespace,
		}, wire.EventObject{Eval: o})
	case *alloc.Alloc:
		d.alloc(c, o)
	case *deployment.Deployment:
		d.deployment(c, o)
	case *node.Node:
		d.node(c, o)
	default:
		d.other(c.Table, gone, o)
	}
}

// other makes the events of objects that stand for themselves.
func (d *derivation) other(table string, gone bool, object any) {
	switch o := object.(type) {
	case *partition.NodePool:
		d.add(table, gone, wire.Event{Key: o.Name}, wire.EventObject{NodePool: o})
	case *volume.Volume:
		v := d.views.VolumeWithNumbers(o)
		d.add(table, gone, wire.Event{
			Key:       string(o.ID.ID),
			Keys:      filled(o.Name(), string(o.Spec.Plugin)),
			Namespace: o.Namespace,
		}, wire.EventObject{Volume: v})
	case *volume.Claim:
		d.add(table, gone, wire.Event{
			Key:       string(o.Volume.ID),
			Keys:      filled(string(o.Alloc), string(o.Node), string(o.Plugin)),
			Namespace: o.Volume.Namespace,
		}, wire.EventObject{Claim: o})
	case *plugin.Record:
		d.plugin(o.ID, gone, o)
	case *acl.Token:
		d.add(table, gone, wire.Event{Key: o.Accessor}, wire.EventObject{Token: d.token(o)})
	case *acl.Policy:
		d.add(table, gone, wire.Event{Key: o.Name}, wire.EventObject{Policy: o})
	case *acl.Role:
		d.add(table, gone, wire.Event{Key: o.ID, Keys: filled(o.Name)}, wire.EventObject{Role: o})
	}
}

// token is what people see of a token, which is nothing of its secret.
func (d *derivation) token(t *acl.Token) *wire.ACLTokenView {
	shown := *t
	shown.SecretHash = nil
	out := &wire.ACLTokenView{Token: &shown, Roles: map[string]string{}}
	for _, id := range t.Roles {
		if r := d.s.ACLRole(nil, id); r != nil {
			out.Roles[id] = r.Name
		}
	}
	return out
}

func (d *derivation) alloc(c *changes.Change, a *alloc.Alloc) {
	j := d.s.JobOf(nil, a)
	d.add(c.Table, c.Now == nil, wire.Event{
		Key:       string(a.ID),
		Keys:      filled(string(a.Job), string(a.Deployment)),
		Namespace: a.Namespace,
	}, wire.EventObject{Alloc: &alloc.Bundle{Alloc: a, Job: groupOf(j, a.TaskGroup)}})
	was, _ := c.Old.(*alloc.Alloc)
	is, _ := c.Now.(*alloc.Alloc)
	d.services(j, was, is)
}

// groupOf is a job with one of its groups alone; nil stays nil.
func groupOf(j *job.Job, group string) *job.Job {
	if j == nil {
		return nil
	}
	out := *j
	out.TaskGroups = slices.DeleteFunc(slices.Clone(j.TaskGroups), func(g *job.TaskGroup) bool {
		return g.Name != group
	})
	return &out
}

// services tells which services appeared with a change of an alloc, and which disappeared.
func (d *derivation) services(j *job.Job, was, is *alloc.Alloc) {
	if j == nil {
		return
	}
	before, after := d.found(j, was), d.found(j, is)
	for _, r := range after {
		old := named(before, r.ID)
		if old == nil || old.Address != r.Address || old.Port != r.Port || !slices.Equal(old.Tags, r.Tags) {
			d.service(r, false)
		}
	}
	for _, r := range before {
		if named(after, r.ID) == nil {
			d.service(r, true)
		}
	}
}

func named(all []*service.Registration, id string) *service.Registration {
	for _, r := range all {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// found are the services of an alloc that are found; nil has none.
func (d *derivation) found(j *job.Job, a *alloc.Alloc) []*service.Registration {
	if a == nil || a.Terminal() {
		return nil
	}
	n := d.s.Node(nil, a.Node)
	if n == nil { // it was forgotten since
		n = &node.Node{ID: a.Node}
	}
	return service.Registrations(service.Source{Alloc: a, Job: j, Node: n})
}

func (d *derivation) service(r *service.Registration, gone bool) {
	d.add(wire.TopicService, gone, wire.Event{
		Key:       r.ID,
		Keys:      filled(string(r.Job), r.Name),
		Namespace: r.Namespace,
	}, wire.EventObject{Service: r})
}

func (d *derivation) deployment(c *changes.Change, o *deployment.Deployment) {
	v := progress.Of(o, slices.Collect(d.s.AllocsByJob(nil, o.Namespace, o.Job)))
	d.add(c.Table, c.Now == nil, wire.Event{
		Key:       string(o.ID),
		Keys:      filled(string(o.Job)),
		Namespace: o.Namespace,
	}, wire.EventObject{Deployment: v})
}

// node tells that a node changed, and of each plugin whose instances there changed.
func (d *derivation) node(c *changes.Change, n *node.Node) {
	shown := *n
	shown.SecretHash = ""
	d.add(c.Table, c.Now == nil, wire.Event{Key: string(n.ID)}, wire.EventObject{Node: &shown})
	was, _ := c.Old.(*node.Node)
	is, _ := c.Now.(*node.Node)
	before, after := instances(was), instances(is)
	var changed []ids.Plugin
	for _, i := range slices.Concat(before, after) {
		if !slices.Contains(changed, i.Plugin) && !same(of(before, i.Plugin), of(after, i.Plugin)) {
			changed = append(changed, i.Plugin)
		}
	}
	for _, id := range changed {
		d.plugin(id, false, nil)
	}
}

func instances(n *node.Node) []*plugin.Instance {
	if n == nil {
		return nil
	}
	return n.CSI
}

func of(all []*plugin.Instance, id ids.Plugin) (out []*plugin.Instance) {
	for _, i := range all {
		if i.Plugin == id {
			out = append(out, i)
		}
	}
	return out
}

// same reports whether instances of a plugin differ in nothing but when they were looked at.
func same(a, b []*plugin.Instance) bool {
	return slices.EqualFunc(a, b, func(x, y *plugin.Instance) bool {
		return x.Role == y.Role && x.Alloc == y.Alloc && x.State == y.State && x.Reason == y.Reason &&
			x.Version == y.Version
	})
}

// plugin tells that a plugin changed: its record, nil where that is as it was, or its instances on a node.
func (d *derivation) plugin(id ids.Plugin, gone bool, r *plugin.Record) {
	v := d.views.PluginLine(id)
	if v == nil || v.Record == nil {
		if r == nil {
			return // nothing is known of it yet, and its record will be an event of its own
		}
		v = &wire.PluginView{Record: r}
	}
	d.add(state.Plugins, gone, wire.Event{Key: string(id), Keys: filled(string(id))}, wire.EventObject{Plugin: v})
}

// filled are those texts that are not empty.
func filled(all ...string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}
