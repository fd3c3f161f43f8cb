package views

import (
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/testkit/localstate"
)

func TestAWriterInTheQueueWaitsForTheWriterBeforeItAndNotForAReader(t *testing.T) {
	c := localstate.New(t)
	id := volume.ID{Namespace: ids.DefaultNamespace, ID: "v"}
	claim := func(alloc ids.Alloc, reads bool, is volume.ClaimState) *volume.Claim {
		return &volume.Claim{
			Volume:         id,
			Alloc:          alloc,
			Node:           "n",
			Job:            ids.Job("job-" + alloc),
			AccessMode:     volume.MultiNodeSingleWriter,
			AttachmentMode: volume.FileSystem,
			ReadOnly:       reads,
			State:          is,
		}
	}
	queued := claim("c", false, volume.Queued)
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutClaim(claim("a", true, volume.Held))
		tx.PutClaim(claim("b", false, volume.Releasing))
		tx.PutClaim(queued)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := Holders(c.Store.Snapshot(), nil, queued); !strings.Contains(got, "job-b") {
		t.Errorf("it waits for the writer of job-b, and is shown: %s", got)
	}
}
