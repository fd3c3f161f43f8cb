package client

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client/allocdir"
	"berth/internal/client/allocs"
	"berth/internal/client/checks"
	"berth/internal/client/consulreads"
	"berth/internal/client/consultokens"
	"berth/internal/client/hook"
	"berth/internal/client/host"
	"berth/internal/client/mesh"
	"berth/internal/client/servicesync"
	"berth/internal/client/sources"
	"berth/internal/client/taskapi"
	"berth/internal/client/taskhooks"
	"berth/internal/model/alloc"
	model "berth/internal/model/consul"
	"berth/internal/model/node"
	"berth/internal/port/consul"
)

// buildConsul makes what registers services in Consul, if the node has an agent of it.
func (c *Client) buildConsul(table *allocs.Table) error {
	if c.cfg.Consul == nil {
		return nil
	}
	agent, err := consul.New(*c.cfg.Consul)
	if err != nil {
		return err
	}
	c.beside.tokens = consultokens.New(consultokens.Config{
		Agent:   agent,
		Servers: signer{c.link},
		Lists:   !c.cfg.Consul.Token.Empty(),
		Secrets: func(id ids.Alloc, task string) string { return secretsOf(table.AllocDir(id), task) },
		Log:     c.cfg.Log,

		ServiceMethod: c.cfg.ServiceMethod,
		TaskMethod:    c.cfg.TaskMethod,
	})
	c.beside.consul = servicesync.New(servicesync.Config{
		Agent:  agent,
		Allocs: inConsul{c},
		Tokens: c.beside.tokens,
		Node:   c.nodeNow,
		Log:    c.cfg.Log,
	})
	if c.cfg.Consul.Mesh == nil {
		return nil
	}
	c.beside.ways = &ways{
		http: taskapi.Named(model.HTTPSocket, mesh.Relay(agent.Dial, c.log), c.log),
		grpc: taskapi.Named(model.GRPCSocket, mesh.Relay(c.cfg.Consul.Mesh.Dial, c.log), c.log),
	}
	return nil
}

// readConsul has Consul asked for what templates read of it, if the node has an agent of it.
func (c *Client) readConsul() {
	if c.beside.tokens == nil {
		return
	}
	c.beside.sources.UseConsul(consulreads.New(consulreads.Config{
		As:  c.consulAs,
		To:  c.beside.sources,
		Say: func(t sources.Task, text string) { inConsul{c}.emit(t.Alloc, t.Name, alloc.EventTemplate, text) },
		Log: c.cfg.Log,
	}))
}

// consulAs is the node's agent of Consul as a task asks it.
func (c *Client) consulAs(t sources.Task) (consulreads.Reader, error) {
	r := c.allocs.Runner(t.Alloc)
	if r == nil {
		return nil, fault.New(fault.NotFound, "find", "alloc "+string(t.Alloc), "the node has none of this id")
	}
	b := r.Bundle()
	if group := b.Job.Group(b.Alloc.TaskGroup); group != nil {
		for _, task := range group.Tasks {
			if task.Name == t.Name {
				dir := c.allocs.AllocDir(t.Alloc).TaskDir(t.Name)
				return c.beside.tokens.AsTask(task, taskhooks.ConsulTokenIn(dir))
			}
		}
	}
	return nil, fault.New(fault.NotFound, "find", "task "+t.Name, "the job has none of this name")
}

// ways are those of proxies to the agent of Consul.
type ways struct{ http, grpc *taskapi.Sockets }

// run answers on them until ctx ends.
func (w *ways) run(ctx context.Context) error {
	if w == nil {
		return nil
	}
	return lifecycle.RunAll(ctx, map[string]func(context.Context) error{
		"to Consul":           w.http.Run,
		"to Consul for Envoy": w.grpc.Run,
	})
}

// end opens and answers none any more.
func (w *ways) end() error {
	if w == nil {
		return nil
	}
	return errors.Join(w.http.End(), w.grpc.End())
}

// meshHook gives proxies what they need.
func (c *Client) meshHook() hook.Hook {
	out := &taskhooks.Mesh{
		Node:       c.nodeNow,
		Registered: c.beside.consul.Registered,
		Moved:      c.beside.consul.Moved,
	}
	if w := c.beside.ways; w != nil {
		out.HTTP, out.GRPC = w.http, w.grpc
	}
	return out
}

func (c *Client) nodeNow() *node.Node { return c.host.Node() }

// tokenHooks put the tokens of Consul in their places; what uses them comes later.
func (c *Client) tokenHooks() []hook.Hook {
	if c.beside.tokens == nil {
		return nil
	}
	return []hook.Hook{
		&taskhooks.MeshToken{Tokens: c.beside.tokens},
		&taskhooks.ConsulToken{Tokens: c.beside.tokens},
	}
}

// secretsOf is where a task of an alloc has what is secret.
func secretsOf(d allocdir.Dir, task string) string {
	return filepath.Join(d.TaskDir(task), allocdir.Secrets)
}

// lastHooks are those that need nothing of the others.
func (c *Client) lastHooks() []hook.Hook {
	if c.beside.consul == nil {
		return append(c.contents(), &taskhooks.Mesh{})
	}
	return append(c.contents(), &taskhooks.Services{Withdraw: c.beside.consul.Leave}, c.meshHook())
}

// askedConsul answers for checks that Consul asks; nil: there is none.
func (c *Client) askedConsul() checks.Consul {
	if c.beside.consul == nil {
		return nil
	}
	return c.beside.consul
}

// describedByConsul adds to the node's attributes; nil: there is none.
func (c *Client) describedByConsul() host.Described {
	if c.beside.consul == nil {
		return nil
	}
	return mesh.Described{Consul: c.beside.consul, Programs: mesh.Programs()}
}

// ServicesInConsul counts those that are to be registered there, and those of them that are not; nil: the node has no
// agent of it.
func (c *Client) ServicesInConsul() *servicesync.Count {
	if c.beside.consul == nil {
		return nil
	}
	return c.beside.consul.Count()
}

// inConsul shows the node's allocs to what registers their services in Consul.
type inConsul struct{ c *Client }

// Served implements servicesync.Allocs.
func (i inConsul) Served() (out []servicesync.Served) {
	for _, r := range i.c.allocs.Runners() {
		b := r.Bundle()
		if group := b.Job.Group(b.Alloc.TaskGroup); group == nil || !group.AsksConsul() || r.Released() {
			continue
		}
		out = append(out, servicesync.Served{Bundle: b, Report: r.Report(), Stopping: r.Stopping()})
	}
	return out
}

// Changed implements servicesync.Allocs.
func (i inConsul) Changed() <-chan struct{} { return i.c.allocs.Changed() }

// Say implements servicesync.Allocs.
func (i inConsul) Say(id ids.Alloc, task, text string) { i.emit(id, task, alloc.EventServices, text) }

// emit adds an event to those of a task, or of all of an alloc.
func (i inConsul) emit(id ids.Alloc, task, event, text string) {
	r := i.c.allocs.Runner(id)
	if r == nil {
		return
	}
	for name := range r.TaskStates() {
		if task != "" && name != task {
			continue
		}
		t, err := r.Task(name)
		if err != nil {
			i.c.log.Debug("an event has no task", logkey.Alloc, id, logkey.Error, err)
			continue
		}
		t.Emit(&alloc.TaskEvent{
			Type:           event,
			Time:           time.Now().UnixNano(),
			DisplayMessage: text,
			Message:        text,
		})
	}
}

var _ servicesync.Allocs = inConsul{}
