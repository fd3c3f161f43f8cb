package oracle

const (
	up = `
caps
ControllerPublishVolume v n1 mode=SINGLE_NODE_WRITER OK
NodeStageVolume v n1 staging=/s OK
NodePublishVolume v n1 staging=/s target=/t OK
`
	down = `
NodeUnpublishVolume v n1 target=/t OK
NodeUnstageVolume v n1 staging=/s OK
ControllerUnpublishVolume v n1 OK
`
)

// judgement is a record with facts, and what is wrong with it.
type judgement struct {
	name  string // begins with the invariant that it is about
	story string
	facts Facts
	// invariants with the line of the story that shows it, counted from 1 without empty lines; "fact" where it shows at
	// a fact's own moment, "end" where it shows in what is left. Empty: nothing is wrong
	want string
}

// ladders are records about the order of calls.
var ladders = []judgement{
	{"a whole life", up + "NodeGetVolumeStats v n1 staging=/s target=/t OK\n" + down + "DeleteVolume v OK",
		Facts{Rest: Feed(Rest{})}, ""},
	{"I1 two controller calls", "caps\n>a ControllerPublishVolume v n1\nControllerExpandVolume v OK\n<a OK",
		Facts{}, "I1@3"},
	{"I1 other volumes", "caps\n>a ControllerPublishVolume v n1\nControllerExpandVolume w OK\n<a OK", Facts{}, ""},
	{"I1 two node calls",
		up + ">a NodeUnpublishVolume v n1 target=/t\nNodeGetVolumeStats v n1 staging=/s target=/t OK\n<a OK",
		Facts{}, "I1@6"},
	{"I1 node calls on two nodes",
		"caps\nControllerPublishVolume v n1 OK\nControllerPublishVolume v n2 OK\n>a NodeStageVolume v n1 " +
			"staging=/s\nNodeStageVolume v n2 staging=/s OK\n<a OK", Facts{}, ""},
	{"I1 detach beside a node call",
		up + "NodeUnpublishVolume v n1 target=/t OK\n>a NodeUnstageVolume v n1 " +
			"staging=/s\nControllerUnpublishVolume v n1 OK\n<a OK", Facts{}, "I4@7 I1@7"},
	{"I1 expansion beside a node call",
		up + ">a NodeGetVolumeStats v n1 staging=/s target=/t\nControllerExpandVolume v OK\n<a OK", Facts{}, ""},
	{"I1 after a crash of the caller",
		"caps\n>a ControllerPublishVolume v n1\nmark caller-crashed\nControllerPublishVolume v n1 OK\n<a OK",
		Facts{}, ""},
	{"I1 crash of another caller", "caps\n>a ControllerPublishVolume v n1\nmark caller-crashed\n", Facts{}, ""},
	{"I1 given up by its caller",
		"caps\n>a ControllerPublishVolume v n1\n+10ms\n>b ControllerPublishVolume v n1\n+1ms\n<a " +
			"DeadlineExceeded\n<b OK", Facts{}, ""},
	{"I1 given up but long open",
		"caps\n>a ControllerPublishVolume v n1\n>b ControllerPublishVolume v n1\n<a DeadlineExceeded\n<b OK",
		Facts{}, "I1@3"},
	{"I1 never ended", "caps\n>a ControllerPublishVolume v n1\nControllerExpandVolume v OK", Facts{}, "I1@3"},
	{"I1 ended by the plugin's end", "caps\n>a CreateVolume v\nrun\ncaps\nCreateVolume v OK", Facts{}, ""},
	{"I2 staged before attached", "caps\nNodeStageVolume v n1 staging=/s OK", Facts{}, "I2@2"},
	{"I2 attachment uncertain",
		"caps\nControllerPublishVolume v n1 DeadlineExceeded\nNodeStageVolume v n1 staging=/s OK", Facts{}, "I2@3"},
	{"I2 no attach capability", "caps -PUBLISH_UNPUBLISH_VOLUME\nNodeStageVolume v n1 staging=/s OK", Facts{}, ""},
	{"I2 published before staged",
		"caps\nControllerPublishVolume v n1 OK\nNodePublishVolume v n1 staging=/s target=/t OK", Facts{}, "I2@3"},
	{"I2 staging uncertain",
		"caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s Internal\nNodePublishVolume v n1 " +
			"staging=/s target=/t OK", Facts{}, "I2@4"},
	{"I2 staging refused at first",
		"caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s " +
			"FailedPrecondition\nNodeStageVolume v n1 staging=/s OK\nNodePublishVolume v n1 staging=/s target=/t " +
			"OK", Facts{}, ""},
	{"I2 no stage capability",
		"caps -STAGE_UNSTAGE_VOLUME\nControllerPublishVolume v n1 OK\nNodePublishVolume v n1 target=/t OK", Facts{},
		""},
	{"I2 grown where it is not staged",
		"caps\nControllerPublishVolume v n1 OK\nNodeExpandVolume v n1 staging=/s target=/t OK", Facts{}, "I2@3"},
	{"I2 grown while its staging is uncertain",
		"caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s Internal\nNodeExpandVolume v n1 " +
			"staging=/s target=/s OK", Facts{}, "I2@4"},
	{"I2 grown between staging and publishing",
		"caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s OK\nNodeExpandVolume v n1 " +
			"staging=/s target=/s OK", Facts{}, ""},
	{"I2 grown where nothing is published, without staging",
		"caps -STAGE_UNSTAGE_VOLUME\nControllerPublishVolume v n1 OK\nNodeExpandVolume v n1 target=/t OK", Facts{},
		"I2@3"},
	{"I2 grown where it is published, without staging",
		"caps -STAGE_UNSTAGE_VOLUME\nControllerPublishVolume v n1 OK\nNodePublishVolume v n1 target=/t OK\n" +
			"NodeExpandVolume v n1 target=/t OK", Facts{}, ""},
	{"I3 unstaged under another",
		up + "NodePublishVolume v n1 staging=/s target=/u OK\nNodeUnpublishVolume v n1 target=/t " +
			"OK\nNodeUnstageVolume v n1 staging=/s OK", Facts{}, "I3@7"},
	{"I3 unstaged under an uncertain one",
		up + "NodeUnpublishVolume v n1 target=/t Internal\nNodeUnstageVolume v n1 staging=/s OK", Facts{}, "I3@6"},
	{"I3 unpublish not found is no success",
		up + "NodeUnpublishVolume v n1 target=/t NotFound\nNodeUnstageVolume v n1 staging=/s OK", Facts{}, "I3@6"},
	{"I3 refused publication does not count",
		"caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s OK\nNodePublishVolume v n1 " +
			"staging=/s target=/t InvalidArgument\nNodeUnstageVolume v n1 staging=/s OK", Facts{}, ""},
	{"I4 detached while staged", up + "NodeUnpublishVolume v n1 target=/t OK\nControllerUnpublishVolume v n1 OK",
		Facts{}, "I4@6"},
	{"I4 detached while published", up + "ControllerUnpublishVolume v n1 OK", Facts{}, "I4@5 I4@5"},
	{"I4 detached from all", up + "ControllerUnpublishVolume v OK", Facts{}, "I4@5 I4@5"},
	{"I4 with a fence", up + "mark fenced v n1\nControllerUnpublishVolume v n1 OK", Facts{}, ""},
	{"I4 fence of another node", up + "mark fenced v n2\nControllerUnpublishVolume v n1 OK", Facts{}, "I4@6 I4@6"},
	{"I14 two nodes", up + "ControllerPublishVolume v n2 mode=SINGLE_NODE_WRITER OK", Facts{}, "I14@5"},
	{"I14 two nodes of a shared volume",
		"caps\nControllerPublishVolume v n1 mode=MULTI_NODE_MULTI_WRITER OK\nControllerPublishVolume v n2 " +
			"mode=MULTI_NODE_MULTI_WRITER OK", Facts{}, ""},
	{"I14 after an unclear detach",
		up + "NodeUnpublishVolume v n1 target=/t OK\nNodeUnstageVolume v n1 staging=/s " +
			"OK\nControllerUnpublishVolume v n1 Unavailable\nControllerPublishVolume v n2 " +
			"mode=SINGLE_NODE_WRITER OK", Facts{}, "I14@8"},
	{"I14 after a fence", up + "mark fenced v n1\nControllerPublishVolume v n2 mode=SINGLE_NODE_WRITER OK", Facts{},
		""},
	{"I6 other arguments after an unclear end",
		"caps\nControllerPublishVolume v n1 hash=1 DeadlineExceeded\nControllerPublishVolume v n1 hash=2 OK",
		Facts{}, "I6@3"},
	{"I6 other arguments after a no",
		"caps\nControllerPublishVolume v n1 hash=1 InvalidArgument\nControllerPublishVolume v n1 hash=2 OK",
		Facts{}, ""},
	{"I6 no after an unclear end",
		"caps\nControllerPublishVolume v n1 hash=1 DeadlineExceeded\nControllerPublishVolume v n1 hash=1 " +
			"InvalidArgument\nControllerPublishVolume v n1 hash=2 OK", Facts{}, "I6@4"},
	{"I6 undone between",
		"caps\nControllerPublishVolume v n1 hash=1 DeadlineExceeded\nControllerUnpublishVolume v n1 " +
			"OK\nControllerPublishVolume v n1 hash=2 OK", Facts{}, ""},
	{"I6 other arguments while published", up + "NodePublishVolume v n1 staging=/s target=/t hash=2 OK", Facts{},
		"I6@5"},
	{"I6 creation under the same name", "caps\nCreateVolume db hash=1 Unavailable\nCreateVolume db hash=2 OK",
		Facts{}, "I6@3"},
	{"I6 created, deleted, created",
		"caps\n" + `CreateVolume db hash=1 answer={"volume":{"volume_id":"v"}} OK` +
			"\nDeleteVolume v OK\nCreateVolume db hash=2 OK", Facts{}, ""},
	{"I7 another staging path", up + "NodeStageVolume v n1 staging=/other OK", Facts{}, "I7@5"},
	{"I7 unstaged elsewhere",
		up + "NodeUnpublishVolume v n1 target=/t OK\nNodeUnstageVolume v n1 staging=/other OK", Facts{}, "I7@6"},
	{"I7 target of another volume",
		up + "ControllerPublishVolume w n1 OK\nNodeStageVolume w n1 staging=/w OK\nNodePublishVolume w n1 " +
			"staging=/w target=/t OK", Facts{}, "I7@7"},
	{"I7 target used again",
		up + "NodeUnpublishVolume v n1 target=/t OK\nControllerPublishVolume w n1 OK\nNodeStageVolume w n1 " +
			"staging=/w OK\nNodePublishVolume w n1 staging=/w target=/t OK", Facts{}, ""},
}
