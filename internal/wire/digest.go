package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"berth/internal/model/lineage"
	"berth/internal/model/volume"
)

// InventoryDigest asks, in place of a report that would repeat the newest one, whether the servers need it: Digest is
// that of everything the node holds, At and Prev are those of the report. An older server does not know the method; it
// gets the report.
type InventoryDigest struct {
	NodeIdentity
	At     lineage.Point
	Prev   uint64
	Digest string
}

// InventoryKnown says whether the state has all that a report would say, and would change nothing by it: the node then
// counts it as taken over. Otherwise it sends the report.
type InventoryKnown struct{ Known bool }

// InventoryDigestOf is the digest of a whole inventory: equal contents, in whatever order and on whichever side of the
// wire, have the same one. Peers that know different members of an entry have different ones, and send reports.
func InventoryDigestOf(entries []volume.InventoryEntry, unknown []volume.UnknownMount) (string, error) {
	all := struct {
		Entries []volume.InventoryEntry
		Unknown []volume.UnknownMount
	}{slices.Clone(entries), unknown}
	slices.SortFunc(all.Entries, func(a, b volume.InventoryEntry) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.ExternalID, b.ExternalID))
	})
	if len(entries) == 0 {
		all.Entries = nil
	}
	if len(unknown) == 0 {
		all.Unknown = nil
	}
	data, err := Encode(&all)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
