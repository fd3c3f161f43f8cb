package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	wal "github.com/hashicorp/raft-wal"

	"berth/internal/base/durable"
	"berth/internal/base/logkey"
)

// VoteFile is the copy of the vote, in the directory of a log.
const VoteFile = "vote.json"

// CurrentTerm is what Raft calls its term in the store.
var CurrentTerm = []byte("CurrentTerm")

// What Raft calls its vote in the store. It writes the term of it first.
var (
	VoteTerm      = []byte("LastVoteTerm")
	voteCandidate = []byte("LastVoteCand")
)

// Vote is the term that a server has reached, and its last vote. Whoever forgets them could vote twice in one term, and
// there could be two leaders in it.
type Vote struct {
	Term      uint64 `json:"term"`
	VoteTerm  uint64 `json:"vote_term"`
	Candidate []byte `json:"candidate,omitempty"`
	Sum       uint32 `json:"crc32c"`
}

func (v Vote) sum() uint32 {
	return crc32.Checksum(fmt.Appendf(nil, "%d %d %x", v.Term, v.VoteTerm, v.Candidate), castagnoli)
}

func (v Vote) same(o Vote) bool { return v.sum() == o.sum() }

// Votes keep a second copy of the vote, with a checksum, in a file of its own: the library's store has no checksum of
// what is in its pages, and nobody else has a server's vote. The copy is written after the store and before Raft acts
// by it: so it has everything by which this server has ever acted in the copy's term, and a store that has reached a
// later one was cut off between the two, or has forgotten nothing.
type Votes struct {
	Dir string
}

func (v *Votes) path() string { return filepath.Join(v.Dir, VoteFile) }

func (v *Votes) read() (out Vote, err error) {
	data, err := os.ReadFile(v.path())
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err == nil && out.Sum != out.sum() {
		err = errors.New("it does not match its checksum")
	}
	return out, err
}

func (v *Votes) write(now Vote) error {
	now.Sum = now.sum()
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return durable.WriteFile(v.path(), append(data, '\n'), 0o600)
}

// Follow copies what the store has, unless writing that failed.
func (v *Votes) Follow(w *wal.WAL, err error) error {
	if err != nil || v == nil {
		return err
	}
	now, err := voteIn(w)
	if err != nil {
		return err
	}
	return v.write(now)
}

// Agree has store and copy say the same.
func (v *Votes) Agree(w *wal.WAL, log *slog.Logger) error {
	stored, err := voteIn(w)
	if err != nil {
		return Classify(err, "read term and vote of", v.Dir)
	}
	kept, err := v.read()
	switch {
	case err == nil && kept.same(stored):
		return nil
	case err == nil && kept.Term >= stored.Term:
		log.Warn("the term and the vote in the log's store are not those by which this server has acted last, which "+
			"count", logkey.Path, v.path())
		return Classify(kept.store(w), "write term or vote to", v.Dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		log.Warn("the copy of term and vote is damaged, and is made anew from the log's store", logkey.Path, v.path(),
			logkey.Error, err)
	}
	return Classify(v.write(stored), "write term or vote to", v.Dir)
}

func voteIn(w *wal.WAL) (v Vote, err error) {
	if v.Term, err = w.GetUint64(CurrentTerm); err != nil {
		return v, err
	}
	if v.VoteTerm, err = w.GetUint64(VoteTerm); err != nil {
		return v, err
	}
	v.Candidate, err = w.Get(voteCandidate)
	return v, err
}

func (v Vote) store(w *wal.WAL) error {
	return errors.Join(w.SetUint64(CurrentTerm, v.Term), w.SetUint64(VoteTerm, v.VoteTerm),
		w.Set(voteCandidate, v.Candidate))
}
