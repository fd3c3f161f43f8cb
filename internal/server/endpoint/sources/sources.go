// Package sources owns what the servers tell nodes of what templates read: variables and services, of the tasks that
// are placed on the node that asks, and nothing that these may not read. Only package endpoint constructs it.
package sources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/render"
	"berth/internal/derive/service"
	"berth/internal/model/acl"
	"berth/internal/model/variable"
	"berth/internal/server/catalog"
	"berth/internal/server/endpoint/nodes"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/endpoint/variables"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// maxReply bounds what one reply has, in bytes, but for its last answer.
const maxReply = 1 << 20

// Config names what the endpoint stands on.
type Config struct {
	serving.Base
	Secrets variables.Secrets
}

// Endpoints answer methods.
type Endpoints struct{ cfg Config }

// New returns endpoints; Register lets them answer.
func New(cfg Config) *Endpoints { return &Endpoints{cfg} }

// Register adds the handlers to a server.
func (e *Endpoints) Register(s *wire.Server) {
	serving.Waiting(e.cfg.Base, s, wire.NodeSources, e.sources)
}

func (e *Endpoints) sources(ctx context.Context, req *wire.SourcesRequest) (*wire.SourcesReply, error) {
	wctx, cancel := context.WithTimeout(ctx, max(req.Wait, time.Millisecond))
	defer cancel()
	for {
		w, s := state.NewWatch(), e.cfg.Store.Snapshot()
		if _, err := nodes.Obeyed(s, w, req.NodeIdentity); err != nil {
			return nil, err
		}
		reply, size := &wire.SourcesReply{}, 0
		for i := range req.Tasks {
			if size > maxReply {
				break
			}
			answer, bytes := e.answer(s, w, req.Node, &req.Tasks[i])
			if answer.Mark != req.Tasks[i].Seen {
				reply.Answers = append(reply.Answers, *answer)
				size += bytes
			}
		}
		if len(reply.Answers) > 0 {
			// Who has been deposed and does not know it yet may show what was taken away since.
			return reply, e.cfg.Cluster.Confirm(ctx)
		}
		if w.Wait(wctx) != nil {
			return reply, ctx.Err()
		}
	}
}

// answer says of a task what it reads. What goes wrong with one does not keep the others waiting.
func (e *Endpoints) answer(
	s *state.Snap, w *state.Watch, node ids.Node, t *wire.TaskSources,
) (out *wire.SourcesAnswer, size int) {
	out = &wire.SourcesAnswer{Alloc: t.Alloc, Task: t.Task}
	sum := sha256.New()
	err := e.values(s, w, node, t, func(text string) {
		size += len(text)
		sum.Write([]byte(strconv.Itoa(len(text)) + ":" + text))
		value := wire.Secrets{}
		if text != "" {
			value.Values = map[string]string{wire.SourceText: text}
		}
		out.Values = append(out.Values, value)
	})
	if err != nil {
		out.Values, out.Refused = nil, err.Error()
		out.Final = fault.Has(err, fault.Denied) || fault.Has(err, fault.Invalid) || fault.Has(err, fault.Unsupported)
		sum.Write([]byte("refused " + out.Refused))
	}
	out.Mark = hex.EncodeToString(sum.Sum(nil))
	return out, size
}

func (e *Endpoints) values(
	s *state.Snap, w *state.Watch, node ids.Node, t *wire.TaskSources, each func(text string),
) error {
	a, _, err := nodes.Placed(s, w, node, t.Alloc, t.Task)
	if err != nil {
		return err
	}
	as := variable.Workload{Namespace: a.Namespace, Job: a.Job, Group: a.TaskGroup, Task: t.Task}
	if len(t.Sources) > render.MaxSources {
		return fault.New(fault.Invalid, "read", fmt.Sprintf("%d variables and services", len(t.Sources)),
			fmt.Sprintf("the templates of one task read at most %d", render.MaxSources))
	}
	for _, source := range t.Sources {
		text, err := e.value(s, w, as, source)
		if err != nil {
			return err
		}
		each(text)
	}
	return nil
}

// value is the text of a source; empty: it is not there. What a task may not read is there for nobody.
func (e *Endpoints) value(
	s *state.Snap, w *state.Watch, as variable.Workload, source render.Source,
) (string, error) {
	switch source.Kind {
	case render.Variable:
		if !as.May(as.Namespace, source.Name, acl.Read) {
			return "", denied(as, source)
		}
		v := s.Variable(w, as.Namespace, source.Name)
		if v == nil {
			return "", nil
		}
		items, err := variables.Items(s, e.cfg.Secrets, v)
		if err != nil {
			return "", err
		}
		return encoded(items.Values)
	case render.Variables:
		list := []render.Path{}
		for _, path := range as.Paths() {
			if v := s.Variable(w, as.Namespace, path); v != nil && strings.HasPrefix(path, source.Name) {
				list = append(list, render.Path{Namespace: string(v.Namespace), Path: v.Path})
			}
		}
		return encoded(list)
	case render.Service:
		all, _ := catalog.Named(s, w, as.Namespace, source.Name)
		if source.Choose > 0 {
			all = service.Choose(all, source.Choose, source.Key)
		}
		return encoded(instances(all))
	case render.Services:
		all, _ := catalog.All(s, w, as.Namespace)
		return encoded(names(all))
	}
	return "", fault.New(fault.Unsupported, "read", source.String(), "this server does not know what it is")
}

func denied(as variable.Workload, source render.Source) error {
	return fault.WithHint(fault.New(fault.Denied, "read", source.String(), "a task reads the variables of its own job"),
		"put it at one of "+strings.Join(as.Paths(), ", "))
}

func encoded(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), fault.Wrap(err, fault.Internal, "encode", "what a template reads")
}

func instances(all []*service.Registration) []render.Instance {
	out := make([]render.Instance, 0, len(all))
	for _, r := range all {
		out = append(out, render.Instance{
			ID:         r.ID,
			Name:       r.Name,
			Namespace:  string(r.Namespace),
			Node:       string(r.Node),
			Datacenter: r.Datacenter,
			JobID:      string(r.Job),
			AllocID:    string(r.Alloc),
			Tags:       r.Tags,
			Address:    r.Address,
			Port:       r.Port,
		})
	}
	slices.SortFunc(out, func(a, b render.Instance) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func names(all []*service.Registration) []render.ServiceName {
	tags := map[string][]string{}
	for _, r := range all {
		tags[r.Name] = append(tags[r.Name], r.Tags...)
	}
	out := make([]render.ServiceName, 0, len(tags))
	for name, of := range tags { // any order: they are sorted
		slices.Sort(of)
		out = append(out, render.ServiceName{Name: name, Tags: slices.Compact(of)})
	}
	slices.SortFunc(out, func(a, b render.ServiceName) int { return strings.Compare(a.Name, b.Name) })
	return out
}
