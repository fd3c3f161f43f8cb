package volume

import (
	"time"

	"berth/internal/base/ids"
)

// Tombstone is what stays of a volume that was forgotten by force while something of it was left: a claim, an
// attachment, a mount on a node. It keeps the identity for a new registration of the same provider's volume, and the
// secrets for the work that is left. It goes when nothing is left.
type Tombstone struct {
	StagingKey
	UID         string
	Volume      ID // the last name
	Provider    string
	HomeNode    ids.Node
	Secrets     string
	Reason      string
	Time        time.Time
	CreateIndex uint64
}
