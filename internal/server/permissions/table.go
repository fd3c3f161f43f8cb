package permissions

import (
	"slices"

	"berth/internal/server/state"
	"berth/internal/wire"
)

// table has an entry for every method that servers answer. What is not in it nobody may call.
var table = func() map[string]entry {
	out := map[string]entry{}
	for _, e := range slices.Concat(cluster, ofNodes, jobs, deployments, allocs, storage, acls, variables, events) {
		out[e.method] = e
	}
	return out
}()

// asks says what a method needs.
func asks[Req, Rep any](m wire.Method[Req, Rep], needs func(*Req, *state.Snap) []need) entry {
	return entry{method: m.Name(), needs: typed(needs)}
}

// opens is asks for a stream.
func opens[Req, In, Out any](m wire.StreamMethod[Req, In, Out], needs func(*Req, *state.Snap) []need) entry {
	return entry{method: m.Name(), needs: typed(needs)}
}

func typed[Req any](needs func(*Req, *state.Snap) []need) func(any, *state.Snap) []need {
	return func(req any, s *state.Snap) []need {
		r, ok := req.(*Req)
		if !ok {
			return everything()
		}
		return needs(r, s)
	}
}

// always is a need that the request changes nothing of.
func always[Req any](n []need) func(*Req, *state.Snap) []need {
	return func(*Req, *state.Snap) []need { return n }
}

// named is a method.
type named interface{ Name() string }

// by is an entry for those whose rights are not asked for.
func by(w who, methods ...named) []entry {
	out := make([]entry, len(methods))
	for i, m := range methods {
		out[i] = entry{method: m.Name(), who: w}
	}
	return out
}
