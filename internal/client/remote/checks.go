package remote

import (
	"context"

	"berth/internal/wire"
)

// runChecks tells what the checks of an alloc's services have found last.
func (m *Methods) runChecks(_ context.Context, r *wire.AgentRef) (*wire.AllocChecksReply, error) {
	a, err := m.target(*r)
	if err != nil {
		return nil, err
	}
	out := &wire.AllocChecksReply{AllocName: a.Bundle().Alloc.Name}
	for _, c := range m.cfg.Checks.Of(r.Alloc) {
		status := wire.CheckStatus{
			ID:         c.Check.ID,
			Check:      c.Check.Name,
			Service:    c.Check.Service.Name,
			Task:       c.Check.Service.Task,
			Mode:       c.Mode,
			Status:     c.Status,
			Output:     c.Output,
			StatusCode: c.StatusCode,
		}
		if !c.At.IsZero() {
			status.At = c.At.Unix()
		}
		out.Checks = append(out.Checks, status)
	}
	if m.cfg.Consul != nil {
		for _, s := range m.cfg.Consul.Of(r.Alloc) {
			shown := wire.ConsulStatus{
				ID:         s.Service.ID,
				Service:    s.Service.Name,
				Task:       s.Task,
				Registered: s.Registered,
				Why:        s.Why,
				Tags:       s.Service.Tags,
				Address:    s.Service.Address,
				Port:       s.Service.Port,
			}
			if !s.Since.IsZero() {
				shown.Since = s.Since.Unix()
			}
			out.Consul = append(out.Consul, shown)
		}
	}
	return out, nil
}
