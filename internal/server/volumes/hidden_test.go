package volumes

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/volume"
	"berth/internal/port/csi/echo"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

// opened gives the secrets of every name, or the error.
type opened struct {
	values map[string]string
	err    error
}

func (o opened) Secrets(string) (wire.Secrets, error) { return wire.Secrets{Values: o.values}, o.err }

// Given a volume whose id at the provider repeats a secret, so that something stands for it in the record, when it is
// deleted, then that is refused while another record owns what its id names, while somebody holds it there, while
// something is left of it by force, or while nobody can tell its id; otherwise it is nobody's.
func TestAVolumeWithAHiddenIDIsDeletedUnlessItIsSomebodys(t *testing.T) {
	password := map[string]string{"password": "open-sesame-of-the-provider"}
	const id = "vol-open-sesame-of-the-provider"
	owner := func(id ids.Volume, external string, phase volume.Phase) *volume.Volume {
		return &volume.Volume{
			ID:     volume.ID{Namespace: ids.DefaultNamespace, ID: id},
			UID:    "uid-" + string(id),
			Spec:   volume.Spec{Plugin: "p"},
			Status: volume.Status{Phase: phase, ExternalID: external},
		}
	}
	v := owner("mine", "", volume.PhaseConflict)
	v.Status.Misplaced = true
	v.Status.HiddenID = echo.HideText(redact.MapOf(password), id)
	if strings.Contains(v.Status.HiddenID, "sesame") {
		t.Fatalf("what stands for it is %q", v.Status.HiddenID)
	}
	key := volume.StagingKey{Plugin: "p", ExternalID: id}
	claim := func(external string) *volume.Claim {
		return &volume.Claim{
			Volume:     v.ID,
			UID:        "other",
			Plugin:     "p",
			ExternalID: external,
			Alloc:      "a",
			Node:       "n",
			State:      volume.Held,
		}
	}
	with := opened{values: password}
	shut := opened{err: fault.New(fault.NotReady, "open", "the secrets", "it is shut")}
	record := func(phase volume.Phase) func(tx *state.Tx) {
		return func(tx *state.Tx) { tx.PutVolume(owner("theirs", id, phase)) }
	}
	claimed := func(external string) func(tx *state.Tx) {
		return func(tx *state.Tx) { tx.PutClaim(claim(external)) }
	}
	left := func(tx *state.Tx) { tx.PutTombstone(&volume.Tombstone{StagingKey: key}) }
	const fine = fault.Internal // it can be deleted
	for name, c := range map[string]struct {
		secrets opened
		shown   bool // its id is no secret
		put     func(tx *state.Tx)
		kind    fault.Kind
		says    string
	}{
		"nobody's":               {with, false, nil, fine, ""},
		"its id is shown":        {shut, true, nil, fine, ""},
		"the secret is gone":     {opened{}, false, nil, fault.NotFound, "secrets that are gone: password"},
		"the secrets are shut":   {shut, false, nil, fault.NotReady, "it is shut"},
		"registered by somebody": {with, false, record(volume.PhaseReady), fault.Conflict, "theirs"},
		"a record without it":    {with, false, record(volume.PhaseFailed), fine, ""},
		"left by force":          {with, false, left, fault.Busy, "by force"},
		"claimed by its id":      {with, false, claimed(id), fault.Busy, "in use"},
		"claimed by its record":  {with, false, claimed(""), fault.Busy, "in use"},
	} {
		cluster := localstate.New(t)
		if err := cluster.Store.Write(cluster.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
			if c.put != nil {
				c.put(tx)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		mine := *v
		if c.shown {
			mine.Status.HiddenID, mine.Status.ExternalID = "", "plain"
		}
		k := &Keeper{cfg: Config{Secrets: c.secrets}}
		err := k.deletable(cluster.Store.Snapshot(), &mine)
		if c.kind == fine {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !fault.Has(err, c.kind) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
