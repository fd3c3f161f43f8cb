package volume

import "testing"

func TestNextClaimForEveryCombination(t *testing.T) {
	const me, other = "me", "other"
	for _, state := range []ClaimState{Queued, Held, Releasing} {
		for bits := range 1 << 8 {
			for _, staging := range []Presence{Absent, Uncertain, Present, Lost} {
				for _, pub := range []Presence{Absent, Uncertain, Present, Lost} {
					inventoried := bits&1 > 0
					gone := bits&2 > 0
					others := bits&4 > 0
					known := bits&8 > 0
					wanted := bits&16 > 0
					named := bits&32 > 0
					unknown := bits&64 > 0
					doubted := bits&128 > 0
					f := ClaimFacts{
						Inventoried:   inventoried,
						ProcessesGone: gone,
						OthersOnNode:  others,
						Unknown:       unknown,
						Doubted:       doubted,
					}
					if known {
						f.Entry = &InventoryEntry{
							Staging:      staging,
							Publications: []InventoryPublication{{Alloc: other, Presence: Present}},
						}
						if named {
							f.Entry.Publications = append(f.Entry.Publications,
								InventoryPublication{Alloc: me, Presence: pub, Wanted: wanted})
						}
					}
					got := NextClaim(&Claim{Alloc: me, State: state}, f)
					mine := known && named && (pub.Exists() || wanted)
					silent := inventoried && !unknown && !doubted // so that it says something
					staged := known && staging.Exists()
					switch {
					case got == ClaimReleases && (state != Held || !gone):
						t.Fatalf("released although it is %s, processes gone %v", state, gone)
					case got == ClaimEnds && (state != Releasing || !silent || mine || staged && !others):
						t.Fatalf("ended: %s, %+v", state, f)
					case doubted && got == ClaimEnds:
						t.Fatalf("ended by the word of another: %s, %+v", state, f)
					case state == Releasing && silent && !mine && (!staged || others) && got != ClaimEnds:
						t.Fatalf("never ends: %+v", f)
					case state == Queued && got != ClaimStays:
						t.Fatalf("a queued claim %s", got)
					}
				}
			}
		}
	}
}
