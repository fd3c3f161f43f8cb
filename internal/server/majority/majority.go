// Package majority owns what a server knows and says while no server leads: since when, which of the servers that vote
// it cannot reach, and what is to be done. Only package server constructs it.
package majority

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/retry"
)

// Timing of the watch.
const (
	// election is how long none may lead before the others are asked: one that is elected is so by then.
	election = 2 * time.Second
	// askTimeout bounds how long one of them is waited for, and period is when they are asked again.
	askTimeout = 1500 * time.Millisecond
	period     = 5 * time.Second
	// undecided is for how long none may lead although all answer, before that is said.
	undecided = 15 * time.Second
)

// Way is the way out for people.
const Way = `start the servers that are missing, or mend the network to them; "berth server members" shows who answers`

// Watch looks at the other servers while none leads. Run it on every server that has others.
type Watch struct {
	Name string // of this server
	// Leader is the server that leads as far as this one knows, empty: none; the channel is closed when that changes.
	Leader func() (string, <-chan struct{})
	// Voters are the servers that vote.
	Voters func() ([]string, error)
	// Ask makes sure that another server answers.
	Ask func(ctx context.Context, server string) error
	Log *slog.Logger

	said string // what was last said; empty: nothing, or that it is over. Run's alone

	mu      sync.Mutex
	since   time.Time            // none leads; zero: one does
	next    time.Time            // when the others are asked
	voters  []string             // when they were last asked; nil: they were not yet
	missing map[string]time.Time // voters that do not answer, and since when
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		leader, changed := w.Leader()
		if leader != "" {
			w.over(leader)
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		if pause := w.pause(); pause > 0 {
			retry.SleepOr(ctx, pause, changed)
			continue
		}
		w.look(ctx)
	}
	return nil
}

// pause is how long none is asked yet. It begins when the last server has ceased to lead.
func (w *Watch) pause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		w.since = time.Now()
		w.next = w.since.Add(election)
	}
	return time.Until(w.next)
}

// over says, where it was said that none leads, that this has ended.
func (w *Watch) over(leader string) {
	w.mu.Lock()
	since := w.since
	w.since = time.Time{}
	w.voters, w.missing = nil, nil
	w.mu.Unlock()
	if w.said != "" {
		w.Log.Info("a server leads again", "server", leader, "leaderless_since", stamp(since))
		w.said = ""
	}
}

// look asks the others, and says what has changed.
func (w *Watch) look(ctx context.Context) {
	w.mu.Lock()
	w.next = time.Now().Add(period)
	w.mu.Unlock()
	voters, err := w.Voters()
	if err != nil || len(voters) < 2 {
		return // it has no log yet, whose readers say so; or none but itself to wait for
	}
	silent := w.ask(ctx, voters)
	if ctx.Err() != nil {
		return
	}
	if leader, _ := w.Leader(); leader != "" {
		return // Run says that it is over
	}
	w.mu.Lock()
	first := w.voters == nil
	missing := map[string]time.Time{}
	for _, name := range silent {
		at, known := w.missing[name]
		switch {
		case known:
			missing[name] = at
		case first:
			missing[name] = w.since // it was gone by then, or went with the one that led
		default:
			missing[name] = time.Now()
		}
	}
	w.voters, w.missing = voters, missing
	since, text := w.since, w.names()
	w.mu.Unlock()
	w.say(since, silent, text, len(voters))
}

func (w *Watch) say(since time.Time, silent []string, text string, voters int) {
	key := strings.Join(silent, " ")
	if len(silent) == 0 {
		if time.Since(since) < undecided {
			return
		}
		key = "none"
	}
	if key == w.said {
		return
	}
	w.said = key
	if len(silent) == 0 {
		w.Log.Warn("no server leads, although all that vote answer; nothing is written until one does",
			"leaderless_since", stamp(since), "hint", "look at the logs of the others for why they elect none")
		return
	}
	w.Log.Warn(fmt.Sprintf("no server leads: %d of %d are needed, and %d answer; what runs goes on, and nothing is "+
		"written until then", voters/2+1, voters, voters-len(silent)),
		"leaderless_since", stamp(since), "missing", text, "hint", Way)
}

// ask returns the voters that do not answer, in the order of their names.
func (w *Watch) ask(ctx context.Context, voters []string) (silent []string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var mu sync.Mutex
	g, gctx := lifecycle.NewGroup(ctx)
	for _, name := range voters {
		if name == w.Name {
			continue
		}
		g.Go("ask "+name, func() error {
			if w.Ask(gctx, name) != nil {
				mu.Lock()
				defer mu.Unlock()
				silent = append(silent, name)
			}
			return nil
		})
	}
	_ = g.Wait() // each answer is noted where it is due
	slices.Sort(silent)
	return silent
}

// names tells those that are missing, and since when. w.mu is held.
func (w *Watch) names() string {
	var out []string
	for name, at := range w.missing {
		out = append(out, name+" since "+stamp(at))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Why says that no server leads, since when, and who is missing; nil: one leads, or one may be elected any moment.
func (w *Watch) Why() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() || time.Since(w.since) < election {
		return nil
	}
	text := "no leader since " + stamp(w.since)
	switch names := w.names(); {
	case w.voters == nil:
		return fault.New(fault.Unavailable, "ask", "the servers", text)
	case names == "":
		return fault.New(fault.Unavailable, "ask", "the servers", text+", although all that vote answer")
	default:
		return fault.WithHint(fault.New(fault.Unavailable, "ask", "the servers", text+", missing: "+names), Way)
	}
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
