package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	model "berth/internal/model/autopilot"
	"berth/internal/model/trust"
	"berth/internal/port/raftlog"
	"berth/internal/server/fsm/autopilot"
	"berth/internal/server/state"
)

// dead takes a server off that is dead, where others have taken its place. done: it did; look: when to look again, if
// nothing changes before.
func (k *Keeper) dead(
	ctx context.Context, snap *state.Snap, by *model.Config, have []raftlog.Member,
) (done bool, look time.Duration, err error) {
	seen := k.survey(ctx, by, have)
	c := cleanup(*by, k.Expect, seen)
	if c.Remove != "" && snap.Member(nil, trust.Server, c.Remove) == nil {
		c = Cleanup{Why: fmt.Sprintf("server %q is in no list", c.Remove)}
	}
	if c.Remove == "" {
		if c.Why != "" && c.Why != k.kept {
			k.Log.Info("a server that does not answer is not taken off", "why", c.Why)
		}
		k.kept = c.Why
		return false, c.Look, nil
	}
	k.kept = ""
	cmd := &autopilot.Cleanup{Name: c.Remove, Keep: uint64(c.Keep)}
	if _, err := k.mark(ctx, cmd, c.Remove, votes(have, c.Remove)); err != nil {
		return false, 0, err
	}
	k.Log.Warn("a server that is dead was taken off: others have taken its place", "server", c.Remove,
		"hint", "to bring its machine back, let it join under another name")
	return true, 0, nil
}

// survey looks at the voters. Where all answer nobody is asked anything.
func (k *Keeper) survey(ctx context.Context, by *model.Config, have []raftlog.Member) (out []Seen) {
	contacts, since, _ := k.Contacts()
	silent := false
	for _, m := range have {
		silent = silent || m.Voter && contacts[m.ID].Silent
	}
	if !silent {
		return nil
	}
	for _, m := range have {
		if !m.Voter {
			continue
		}
		s := Seen{Name: m.ID}
		switch c := contacts[m.ID]; {
		case c.Silent:
			s.Silent = max(1, time.Since(c.Since))
			k.restart(m.ID)
		case m.ID == k.Name:
			s.Well = max(1, time.Since(since))
		case k.unwell(ctx, by, m.ID) != nil:
			k.restart(m.ID)
		default:
			s.Well = max(1, time.Since(latest(since, c.Since, k.steady[m.ID])))
		}
		out = append(out, s)
	}
	return out
}

func latest(times ...time.Time) (out time.Time) {
	for _, t := range times {
		if t.After(out) {
			out = t
		}
	}
	return out
}

// restart has the time begin anew for which a server is to be well.
func (k *Keeper) restart(name string) {
	if k.steady == nil {
		k.steady = map[string]time.Time{}
	}
	k.steady[name] = time.Now()
}

// unwell says why a server is not well.
func (k *Keeper) unwell(ctx context.Context, by *model.Config, name string) error {
	mine, err := k.Raft.Progress()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	asked := time.Now()
	its, err := k.Ask(ctx, name)
	if err != nil {
		return err
	}
	if why := by.Unwell(time.Since(asked), mine.Last-min(mine.Last, its.Last)); why != "" {
		return errors.New(why)
	}
	return nil
}
