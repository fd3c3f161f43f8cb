package oracle

import (
	"strings"
	"time"
)

const bare = "caps -PUBLISH_UNPUBLISH_VOLUME\n" // a plugin that does not attach

// lone is a plugin that knows no second writer of a node.
var lone = strings.Replace(up, "caps", "caps -SINGLE_NODE_MULTI_WRITER", 1)

// rivals are records about who may hold a volume, and what may be taken from whom.
var rivals = []judgement{
	{"I5 unpublished under a process", up + "NodeUnpublishVolume v n1 target=/t living=redis OK",
		Facts{Processes: Witnessed()}, "I5@5"},
	{"I5 process gone", up + "NodeUnpublishVolume v n1 target=/t living= OK", Facts{Processes: Witnessed()}, ""},
	{"I5 mounts lost", up + "mark mounts-lost - n1\nNodeUnpublishVolume v n1 target=/t living=redis OK",
		Facts{Processes: Witnessed()}, ""},

	{"I8 claimed", "caps\nDeleteVolume v holders=claim OK", Facts{Holders: Witnessed()}, "I8@2"},
	{"I8 registered twice", "caps\nDeleteVolume v holders=claim,twin OK", Facts{Holders: Witnessed()}, "I8@2 I8@2"},
	{"I8 no longer claimed", "caps\nDeleteVolume v holders= OK", Facts{Holders: Witnessed()}, ""},

	{"I14 a process of another node writes", "caps\nControllerPublishVolume v n2 mode=SINGLE_NODE_WRITER " +
		"writers=n1/db OK", Facts{Writers: Witnessed()}, "I14@2"},
	{"I14 it does as the volume is staged and published", "caps\nControllerPublishVolume v n2 " +
		"mode=SINGLE_NODE_WRITER writers= OK\nNodeStageVolume v n2 staging=/s mode=SINGLE_NODE_WRITER " +
		"writers=n1/db OK\nNodePublishVolume v n2 staging=/s target=/t mode=SINGLE_NODE_WRITER writers=n1/db OK",
		Facts{Writers: Witnessed()}, "I14@3 I14@4"},
	{"I14 a process of its own node writes", "caps\nControllerPublishVolume v n2 mode=SINGLE_NODE_WRITER " +
		"writers=n2/db OK", Facts{Writers: Witnessed()}, ""},
	{"I14 a process of another node writes to a shared volume", "caps\nControllerPublishVolume v n2 " +
		"mode=MULTI_NODE_MULTI_WRITER writers=n1/db OK", Facts{Writers: Witnessed()}, ""},
	{"I14 a process of a node that is fenced", "caps\nControllerPublishVolume v n1 mode=SINGLE_NODE_WRITER writers= " +
		"OK\nmark fenced v n1\nControllerPublishVolume v n2 mode=SINGLE_NODE_WRITER writers=n1/db OK",
		Facts{Writers: Witnessed()}, ""},

	{"I23 snapshot deleted during a restore from it", "caps\nCreateVolume r object=s Unavailable\nDeleteSnapshot " +
		"object=s OK",
		Facts{}, "I23@3"},
	{"I23 snapshot deleted after the restore",
		"caps\nCreateVolume r object=s Unavailable\nCreateVolume r object=s OK\nDeleteSnapshot object=s OK",
		Facts{}, ""},
	{"I23 another snapshot", "caps\nCreateVolume r object=s Unavailable\nDeleteSnapshot object=o OK", Facts{}, ""},

	{"I25 two nodes without attaching",
		bare + "NodeStageVolume v n1 staging=/s mode=SINGLE_NODE_WRITER OK\nNodePublishVolume v n1 staging=/s " +
			"target=/t " +
			"mode=SINGLE_NODE_WRITER OK\nNodeStageVolume v n2 staging=/s mode=SINGLE_NODE_WRITER OK", Facts{}, "I25@4"},
	{"I25 two nodes without staging", "caps -PUBLISH_UNPUBLISH_VOLUME -STAGE_UNSTAGE_VOLUME\nNodePublishVolume v n1 " +
		"target=/t mode=SINGLE_NODE_READER_ONLY OK\nNodePublishVolume v n2 target=/t mode=SINGLE_NODE_READER_ONLY OK",
		Facts{}, "I25@3"},
	{"I25 two nodes of a shared volume",
		bare + "NodeStageVolume v n1 staging=/s mode=MULTI_NODE_MULTI_WRITER OK\nNodeStageVolume v n2 staging=/s " +
			"mode=MULTI_NODE_MULTI_WRITER OK", Facts{}, ""},
	{"I25 the other node after the first",
		bare + "NodeStageVolume v n1 staging=/s mode=SINGLE_NODE_WRITER OK\nNodeUnstageVolume v n1 staging=/s OK\n" +
			"NodeStageVolume v n2 staging=/s mode=SINGLE_NODE_WRITER OK", Facts{}, ""},
	{"I25 the other node after a fence",
		bare + "NodeStageVolume v n1 staging=/s mode=SINGLE_NODE_WRITER OK\nmark fenced v n1\nNodeStageVolume v n2 " +
			"staging=/s mode=SINGLE_NODE_WRITER OK", Facts{}, ""},
	{"I25 two targets of one writer",
		strings.ReplaceAll(lone, "target=/t OK", "target=/t mode=SINGLE_NODE_WRITER OK") + "NodePublishVolume v n1 " +
			"staging=/s target=/u mode=SINGLE_NODE_WRITER OK", Facts{}, "I25@5"},
	{"I25 one target after the other", strings.ReplaceAll(lone, "target=/t OK", "target=/t mode=SINGLE_NODE_WRITER "+
		"OK") +
		"NodeUnpublishVolume v n1 target=/t OK\nNodePublishVolume v n1 staging=/s target=/u mode=SINGLE_NODE_WRITER OK",
		Facts{}, ""},
	{"I25 two targets where the plugin knows several writers",
		strings.ReplaceAll(up, "target=/t OK", "target=/t mode=SINGLE_NODE_WRITER OK") + "NodePublishVolume v n1 " +
			"staging=/s target=/u mode=SINGLE_NODE_WRITER OK", Facts{}, ""},
	{"I25 two readers", "caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s " +
		"OK\nNodePublishVolume v " +
		"n1 staging=/s target=/t mode=SINGLE_NODE_READER_ONLY OK\nNodePublishVolume v n1 staging=/s target=/u " +
		"mode=SINGLE_NODE_READER_ONLY OK", Facts{}, ""},
}

const (
	madeV = `CreateVolume db answer={"volume":{"volume_id":"v"}} OK` + "\n"
	madeS = `CreateSnapshot v object=cut answer={"snapshot":{"snapshot_id":"s1","ready_to_use":true}} OK` + "\n"
)

// worlds are records with what stood around them.
var worlds = []judgement{
	{"I9 listed as detached", up + strings.Replace(down, "Volume v n1 OK", "Volume v n1 NotFound", 1) +
		`ListVolumes answer={"entries":[{"volume":{"volume_id":"v"},"status":{}}]} OK`, Facts{Rest: Feed(Rest{})}, ""},
	{"I9 listed as attached", up + strings.Replace(down, "Volume v n1 OK", "Volume v n1 NotFound", 1) +
		`ListVolumes answer={"entries":[{"volume":{"volume_id":"v"},"status":{"published_node_ids":["n1"]}}]} OK`,
		Facts{Rest: Feed(Rest{})}, "I9@end"},

	{"I10 leak", up + down, Facts{
		Provider: Feed(Thing{ID: "a"}, Thing{ID: "b"}),
		Records:  Feed(Record{ID: "b"}, Record{ID: "c"}),
	}, "I10@end I10@end"},
	{"I10 none", up + down, Facts{
		Provider: Feed(Thing{ID: "a"}, Thing{ID: "v-1", Name: "new"}),
		Records:  Feed(Record{ID: "a"}, Record{Name: "new", Passing: true}, Record{ID: "gone", Passing: true}),
	}, ""},
	{"I10 created and never deleted", "caps\n" + madeV, Facts{Records: Feed[Record]()}, "I10@end"},
	{"I10 created and known", "caps\n" + madeV, Facts{Records: Feed(Record{ID: "v"})}, ""},
	{"I10 created and deleted", "caps\n" + madeV + "DeleteVolume v OK", Facts{Records: Feed[Record]()}, ""},
	{"I10 lost answer, then refused", "caps\nCreateSnapshot v object=cut DeadlineExceeded\nCreateSnapshot v " +
		"object=cut " +
		"ResourceExhausted", Facts{Records: Feed[Record]()}, "I10@2"},
	{"I10 lost answer, then made and deleted",
		"caps\nCreateSnapshot v object=cut DeadlineExceeded\n" + madeS + "DeleteSnapshot object=s1 OK",
		Facts{Records: Feed[Record]()}, ""},
	{"I10 refused at once", "caps\nCreateSnapshot v object=cut ResourceExhausted", Facts{Records: Feed[Record]()}, ""},

	{"I13 secret in a log", up, Facts{Secrets: Feed("pass"), Texts: Feed(Text{"the log", "auth pass failed"})},
		"I13@end"},
	{"I13 secret kept", up, Facts{Secrets: Feed("pass"), Texts: Feed(Text{"the log", "auth *** failed"})}, ""},

	{"I15 another volume waits", "caps\n>a NodeStageVolume v n1\n+60s\n<a OK",
		Facts{Works: Feed(Work{"creating w", "w", second(0), second(50), 10 * time.Second})}, "I2@2 I15@fact"},
	{"I15 its own volume waits", "caps\n>a NodeStageVolume v n1\n+60s\n<a OK",
		Facts{Works: Feed(Work{"mounting v", "v", second(0), second(50), 10 * time.Second})}, "I2@2"},
	{"I15 nothing waits", "caps\n>a NodeStageVolume v n1\n+60s\n<a OK",
		Facts{Works: Feed(Work{"creating w", "w", second(0), second(5), 10 * time.Second})}, "I2@2"},

	{"I16 claim for nobody", up, Facts{Shown: Feed(held(func(s *Shown) { s.Owner = "" }))}, "I16@fact"},
	{"I16 claim of a volume that does not exist", up,
		Facts{Shown: Feed(held(func(s *Shown) { s.Missing = []string{"volume db"} }))}, "I16@fact"},
	{"I16 claim of no time", up, Facts{Shown: Feed(held(func(s *Shown) { s.Since = time.Time{} }))}, "I16@fact"},
	{"I16 failure without its error", up, Facts{Shown: Feed(held(func(s *Shown) { s.Tries = 1 }))}, "I16@fact"},
	{"I16 failure with its error", up, Facts{Shown: Feed(held(func(s *Shown) {
		s.Tries, s.Last = 1, "no"
		s.Next = second(20)
	}))}, ""},
	{"I16 everything said", up, Facts{Shown: Feed(held(func(*Shown) {}))}, ""},

	{"I18 written beneath a target", up, Facts{Strays: Feed(Stray{second(9), "/t/x", "lies beneath an unmounted " +
		"target"})},
		"I18@fact"},
	{"I18 nothing beneath", up, Facts{Strays: Feed[Stray]()}, ""},

	{"I21 an unknown alloc is ended", up, Facts{Ends: Feed(End{At: second(9), Node: "n1", Alloc: "a"})}, "I21@fact"},
	{"I21 by a person", up, Facts{Ends: Feed(End{At: second(9), Node: "n1", Alloc: "a", By: "an operator"})}, ""},
	{"I21 by the state that knew it", up, Facts{Ends: Feed(End{At: second(9), Node: "n1", Alloc: "a",
		Known: true})}, ""},

	{"I22 report of an older start", up, Facts{Obeyed: Feed(Obeyed{second(1), "n1", 1, "report"},
		Obeyed{second(2), "n1", 2, "report"}, Obeyed{second(3), "n1", 1, "result"})}, "I22@fact"},
	{"I22 one start after the other", up, Facts{Obeyed: Feed(Obeyed{second(1), "n1", 1, "report"},
		Obeyed{second(2), "n1", 2, "report"}, Obeyed{second(3), "n2", 1, "report"})}, ""},

	{"I24 released too late", up + down, Facts{Shown: Feed(releasing("v", 20))}, "I24@fact"},
	{"I24 waits for nothing it names", up + down + "mark event v", Facts{Shown: Feed(nameless(releasing("v", 20)))},
		"I24@fact I24@fact"},
	{"I24 held up, and names nothing", up + down, Facts{Shown: Feed(heldUp(nameless(releasing("v", 20))))}, "I24@fact"},
	{"I24 held up, and says by what", up + down, Facts{Shown: Feed(heldUp(releasing("v", 20)))}, ""},
	{"I24 released in time", up + down, Facts{Shown: Feed(releasing("v", 12))}, ""},
	{"I24 held up by a fault", up + strings.Replace(down, "target=/t OK", "target=/t injected=rule OK", 1),
		Facts{Shown: Feed(since(releasing("v", 20), 1))}, ""},
	{"I24 held up by the plugin", up + ">a NodeUnpublishVolume v n1 target=/t\n+60s\n<a OK",
		Facts{Shown: Feed(releasing("v", 20))}, ""},
}

// held is a claim as it is shown after nine seconds, with a change.
func held(change func(*Shown)) Shown {
	s := Shown{
		At:     second(9),
		What:   "claim",
		Volume: "v",
		Owner:  "a",
		State:  "held",
		Since:  start,
	}
	change(&s)
	return s
}

// releasing is a claim that nothing holds up any more after ten seconds, as it is shown at a later one.
func releasing(volume string, at int) Shown {
	return Shown{
		At:      second(at),
		What:    "claim of a on " + volume,
		Volume:  volume,
		Owner:   "a",
		State:   "releasing",
		Since:   start,
		Passing: true,
		Reason:  "unpublish",
		Free:    second(10),
	}
}

func nameless(s Shown) Shown { s.Reason = ""; return s }

func heldUp(s Shown) Shown { s.Free = time.Time{}; return s }

func since(s Shown, sec int) Shown { s.Free = second(sec); return s }
