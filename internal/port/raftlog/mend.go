package raftlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/port/raftlog/files"
)

// A server of several whose log is damaged gets what is missing from the others before it votes, stands for election or
// acknowledges anything: it may have helped to commit what it lacks, and must not be counted among those who do not
// have it. Two things are safe, and nothing else is done:
//
//   - Entries are missing in the middle, and another server has, behind them, an entry of the index and term of one
//     that is left here: then by Raft's log matching all that it has before that is what was here. Anybody may be
//     asked.
//   - Otherwise the log becomes that of the leader, up to the leader's last entry, if the leader's term is none before
//     the last that this server has acted in. Whatever this server has helped to commit is in there: of earlier terms
//     because each leader has what was committed before it, of the leader's own because this server got it from there.

// mendPause is the pause between rounds of asking the others.
var mendPause = retry.Backoff{Min: 200 * time.Millisecond, Max: 10 * time.Second}

// sayAgain is after how many rounds a reason that has not changed is said again.
const sayAgain = 30

// check reads the log and, on a server that has others to ask, mends it. A lone voter has what its snapshot holds. It
// returns when the log is whole, cannot be mended, or ctx has ended.
func (l *Log) check(ctx context.Context) (files.Found, error) {
	if err := files.DropUnfinished(l.cfg.Dir); err != nil {
		return files.Found{}, err
	}
	if err := files.Abandon(l.cfg.files()); err != nil {
		return files.Found{}, err
	}
	found, err := files.Check(l.cfg.Dir)
	lone := l.cfg.Transport == nil
	switch {
	case err == nil && (lone || found.Dropped == 0 && !found.Unmade):
		return found, nil
	case lone:
		return l.dropCovered(found, err)
	case err != nil && len(l.cfg.Peers()) == 0:
		return found, fault.WithHint(err, "no other server is known that could be asked for what is missing; nothing "+
			"was changed")
	}
	w, sifted := files.Sift(l.cfg.Dir)
	if sifted != nil {
		return found, errors.Join(err, sifted)
	}
	if err != nil {
		l.cfg.Log.Error("the log is damaged; this server neither votes nor leads before it has got from the others "+
			"what is missing", logkey.Error, err, "missing", missing(w))
	}
	if err := l.mend(ctx, w); err != nil {
		return found, err
	}
	return files.Check(l.cfg.Dir)
}

// dropCovered begins the log of a lone voter anew without what is damaged, if that is held by its snapshot, too.
func (l *Log) dropCovered(found files.Found, damaged error) (files.Found, error) {
	w := files.Covered(l.cfg.Dir)
	if w == nil {
		return found, damaged
	}
	first, last := w.Entries()
	l.cfg.Log.Warn("the log is damaged where it is not needed, as a whole snapshot holds the same; what is damaged is "+
		"dropped", logkey.Error, damaged, "snapshot", w.Snapshot, "first_entry", first, "last_entry", last)
	if err := w.Rebuild(l.cfg.files(), w.Head); err != nil {
		return found, errors.Join(damaged, err)
	}
	return files.Check(l.cfg.Dir)
}

// missing says what is missing.
func missing(w *files.Wound) string {
	switch {
	case w.From == 0:
		return "nothing that is needed"
	case w.To == 0:
		return fmt.Sprintf("the entries from %d on", w.From)
	}
	return fmt.Sprintf("entries %d to %d", w.From, w.To)
}

// mend asks the others until the log is whole again.
func (l *Log) mend(ctx context.Context, w *files.Wound) error {
	l.answerBy(w)
	defer l.answerBy(nil)
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("refusals", func() error { refuse(gctx, l.cfg.Transport); return nil })
	defer func() { g.Stop(); _ = g.Wait() }() // its child returns nil
	last, said := "", 0
	for failures := 1; ; failures++ {
		err := l.mended(ctx, w)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if text := err.Error(); text != last || failures-said >= sayAgain {
			last, said = text, failures
			l.cfg.Log.Warn("this server waits for the others to mend its log, and neither votes nor leads meanwhile",
				logkey.Path, l.cfg.Dir, "missing", missing(w), logkey.Error, err)
		}
		if !mendPause.Sleep(ctx, failures) {
			return ctx.Err()
		}
	}
}

// answerBy has this server answer others by what is left of its log.
func (l *Log) answerBy(w *files.Wound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wound = w
}

// mended tries to mend the log once.
func (l *Log) mended(ctx context.Context, w *files.Wound) error {
	if w.From == 0 {
		return w.Rebuild(l.cfg.files(), reach(ctx, w, l.cfg))
	}
	peers := l.cfg.Peers() // others may have joined since the last round
	if len(peers) == 0 {
		return errors.New("no other server is known that could be asked")
	}
	var why []error
	for _, p := range peers {
		entries, err := by(ctx, w, l.cfg, p)
		if err == nil {
			err = w.Rebuild(l.cfg.files(), entries)
		}
		if err == nil {
			l.cfg.Log.Info("the log is mended", logkey.Path, l.cfg.Dir, "missing", missing(w), "from", p.Name())
			return nil
		}
		why = append(why, fmt.Errorf("%s: %w", p.Name(), err))
	}
	return errors.Join(why...)
}

// by makes the log whole by what one server has.
func by(ctx context.Context, w *files.Wound, cfg Config, p Peer) ([]*raft.Log, error) {
	f := fetch{cfg: cfg, peer: p, wound: w}
	have, err := f.at(ctx, w.From)
	if err != nil {
		return nil, err
	}
	if len(w.Tail) > 0 {
		got, err := f.between(ctx, have)
		if err == nil && got == nil {
			got, err = f.beneath(ctx, have)
		}
		if err != nil || got != nil {
			return f.reach(ctx, got, have), err
		}
	}
	switch {
	case !have.Leading:
		return nil, fmt.Errorf("it does not lead, and does not have %s behind which it has the same as this server",
			missing(w))
	case have.Term < w.Vote.Term:
		return nil, fmt.Errorf("it leads term %d, and this server has acted in %d: what this one lacks may be of a "+
			"later term than the leader's; transferring the leadership begins another", have.Term, w.Vote.Term)
	}
	got, err := f.leaders(ctx, have)
	return f.reach(ctx, got, have), err
}

// reach is what is left, if nothing is missing that is needed, with what another server has from before it.
func reach(ctx context.Context, w *files.Wound, cfg Config) []*raft.Log {
	for _, p := range cfg.Peers() {
		f := fetch{cfg: cfg, peer: p, wound: w}
		if have, err := f.at(ctx, w.Snapshot); err == nil {
			if got := f.reach(ctx, w.Head, have); len(got) > len(w.Head) {
				return got
			}
		}
	}
	return w.Head
}
