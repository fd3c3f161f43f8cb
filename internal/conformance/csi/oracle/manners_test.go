package oracle

import (
	"fmt"
	"strings"
	"time"
)

// manners are records about single calls and their repetition.
var manners = []judgement{
	{"I8 attached", "caps\nControllerPublishVolume v n1 OK\nDeleteVolume v OK", Facts{}, "I8@3"},
	{"I8 attachment uncertain", "caps\nControllerPublishVolume v n1 Unknown\nDeleteVolume v OK", Facts{}, "I8@3"},
	{"I8 published", up + "DeleteVolume v OK", Facts{}, "I8@5 I8@5 I8@5"},
	{"I8 snapshot under way", "caps\nCreateSnapshot v object=s OK\nDeleteVolume v OK", Facts{}, "I8@3"},
	{"I8 snapshot ready",
		"caps\n" + `CreateSnapshot v object=s answer={"snapshot":{"snapshot_id":"s1","ready_to_use":true}} OK` +
			"\nDeleteVolume v OK", Facts{}, ""},
	{"I8 clone unclear", "caps\nCreateVolume c source=v Unavailable\nDeleteVolume v OK", Facts{}, "I8@3"},
	{"I8 clone done", "caps\nCreateVolume c source=v Unavailable\nCreateVolume c source=v OK\nDeleteVolume v OK",
		Facts{}, ""},
	{"I9 still published", up, Facts{Rest: Feed(Rest{})}, "I9@end I9@end I9@end"},
	{"I9 left behind", up + down, Facts{Rest: Feed(Rest{Mounts: []string{"/m"}, Dirs: []string{"/d"},
		Claims: []string{"a"}, Attachments: []string{"b"}})},
		"I9@end I9@end I9@end I9@end"},
	{"I11 invalid argument again", "caps\nCreateVolume db InvalidArgument\nCreateVolume db OK", Facts{}, "I11@3"},
	{"I11 invalid argument again, after a try that may have made something",
		"caps\nCreateVolume db Unknown\n+600ms\nCreateVolume db InvalidArgument\n+900ms\nCreateVolume db OK", Facts{},
		""},
	{"I11 unimplemented again", "caps\nDeleteVolume v Unimplemented\nDeleteVolume v OK", Facts{}, "I11@3"},
	{"I11 refused detach again, much later",
		"caps\nControllerPublishVolume v n1 OK\nControllerUnpublishVolume v n1 InvalidArgument\n+300s\n" +
			"ControllerUnpublishVolume v n1 OK", Facts{}, ""},
	{"I11 refused detach again, too soon",
		"caps\nControllerPublishVolume v n1 OK\nControllerUnpublishVolume v n1 InvalidArgument\n+290s\n" +
			"ControllerUnpublishVolume v n1 OK", Facts{}, "I11@5"},
	{"I11 refused creation again, much later",
		"caps\nCreateVolume db InvalidArgument\n+3600s\nCreateVolume db OK", Facts{}, "I11@4"},
	{"I11 node expansion again",
		up + "NodeExpandVolume v n1 staging=/s target=/t FailedPrecondition\nNodeExpandVolume v n1 staging=/s " +
			"target=/t OK", Facts{}, "I11@6"},
	{"I11 node expansion after unstaging",
		up + "NodeExpandVolume v n1 staging=/s target=/t FailedPrecondition\nNodeUnpublishVolume v n1 target=/t " +
			"OK\nNodeUnstageVolume v n1 staging=/s OK\nNodeStageVolume v n1 staging=/s OK\nNodePublishVolume v " +
			"n1 staging=/s target=/t OK\nNodeExpandVolume v n1 staging=/s target=/t OK", Facts{}, ""},
	{"I11 with other arguments", "caps\nCreateVolume db hash=1 InvalidArgument\nCreateVolume db hash=2 OK", Facts{},
		""},
	{"I11 another run of the plugin", "caps\nCreateVolume db InvalidArgument\nrun\ncaps\nCreateVolume db OK",
		Facts{}, ""},
	{"I11 hot loop", "caps\nDeleteVolume v Unavailable\n+5ms\nDeleteVolume v OK", Facts{}, "I11@4"},
	{"I11 hot loop cut short by an event",
		"caps\nDeleteVolume v Unavailable\nmark event v\n+5ms\nDeleteVolume v OK", Facts{}, ""},
	{"I11 no capacity, and a volume has left the node", "caps\nControllerPublishVolume w n1 OK\n" +
		"ControllerPublishVolume v n1 ResourceExhausted\n+5ms\nControllerUnpublishVolume w n1 OK\n+5ms\n" +
		"ControllerPublishVolume v n1 OK", Facts{}, ""},
	{"I11 no capacity, and a volume has left another node", "caps\nControllerPublishVolume w n2 OK\n" +
		"ControllerPublishVolume v n1 ResourceExhausted\n+5ms\nControllerUnpublishVolume w n2 OK\n+5ms\n" +
		"ControllerPublishVolume v n1 OK", Facts{}, "I11@7"},
	{"I11 no capacity, and a volume has not left the node", "caps\nControllerPublishVolume w n1 OK\n" +
		"ControllerPublishVolume v n1 ResourceExhausted\n+5ms\nControllerUnpublishVolume w n1 Unavailable\n+5ms\n" +
		"ControllerPublishVolume v n1 OK", Facts{}, "I11@7"},
	{"I11 no answer, and a volume has left the node", "caps\nControllerPublishVolume w n1 OK\n" +
		"ControllerPublishVolume v n1 Unavailable\n+5ms\nControllerUnpublishVolume w n1 OK\n+5ms\n" +
		"ControllerPublishVolume v n1 OK", Facts{}, "I11@7"},
	{"I11 pauses that do not grow", "caps\n" + strings.Repeat("DeleteVolume v Unavailable\n", 8), Facts{},
		"I11@7 I11@8 I11@9"},
	{"I11 probing is no retry", "caps\nProbe FailedPrecondition\n+5ms\nProbe FailedPrecondition", Facts{}, ""},
	{"I12 nothing negotiated", "CreateVolume db OK", Facts{}, "I12@1"},
	{"I12 without the capability", "caps -LIST_VOLUMES\nListVolumes OK", Facts{}, "I12@2"},
	{"I12 negotiated with the run before", "caps\nrun\nCreateVolume db OK", Facts{}, "I12@3"},
	{"I12 negotiated through another proxy", "caps\nCreateVolume db proxy=y OK", Facts{}, "I12@2"},
	{"I12 field", "caps -MODIFY_VOLUME\nCreateVolume db field=mutable_parameters OK", Facts{}, "I12@2"},
	{"I12 field with its capability", "caps\nCreateVolume db field=mutable_parameters OK", Facts{}, ""},
	{"I12 read-only attachment", "caps -PUBLISH_READONLY\nControllerPublishVolume v n1 field=readonly OK", Facts{},
		"I12@2"},
	{"I12 read-only publication", strings.Replace(up, "target=/t OK", "target=/t field=readonly OK", 1), Facts{},
		""},
	{"I12 alpha mode", "caps -SINGLE_NODE_MULTI_WRITER\nCreateVolume db mode=SINGLE_NODE_SINGLE_WRITER OK", Facts{},
		"I12@2"},
	{"I12 staging path without staging",
		"caps -STAGE_UNSTAGE_VOLUME\nControllerPublishVolume v n1 OK\nNodePublishVolume v n1 staging=/s " +
			"target=/t OK", Facts{}, "I12@3"},
	{"I12 no staging path with staging", up + "NodeExpandVolume v n1 target=/t OK", Facts{}, "I12@5"},
	{"I12 publish context without attaching",
		"caps -PUBLISH_UNPUBLISH_VOLUME\nNodeStageVolume v n1 staging=/s field=publish_context OK", Facts{}, "I12@2"},
	{"I17 on a verified mount", up, Facts{Tasks: Feed(TaskStart{At: second(9), Target: "/t", Mounted: true})}, ""},
	{"I17 not mounted", up, Facts{Tasks: Feed(TaskStart{At: second(9), Target: "/t"})}, "I17@fact"},
	{"I17 before its publication", up, Facts{Tasks: Feed(TaskStart{At: second(2), Target: "/t", Mounted: true})},
		"I17@fact"},
	{"I17 mounts lost", up + "mark mounts-lost - n1",
		Facts{Tasks: Feed(TaskStart{At: second(9), Target: "/t", Mounted: true})}, "I17@fact"},
	{"I20 restart changes something", up + "mark caller-crashed\nNodePublishVolume v n1 staging=/s target=/t OK",
		Facts{Quiet: Feed(Quiet{From: second(4)})}, "I20@6"},
	{"I20 restart looks only", up + "mark caller-crashed\ncaps\nNodeGetVolumeStats v n1 staging=/s target=/t OK",
		Facts{Quiet: Feed(Quiet{From: second(4)})}, ""},
	{"I20 uncertain may be repeated",
		strings.Replace(up, "target=/t OK", "target=/t Internal", 1) +
			"mark caller-crashed\nNodePublishVolume v n1 staging=/s target=/t OK",
		Facts{Quiet: Feed(Quiet{From: second(4)})}, ""},
	{"I20 lost may be remade", up + "mark mounts-lost - n1\nNodeUnpublishVolume v n1 target=/t OK",
		Facts{Quiet: Feed(Quiet{From: second(4)})}, ""},
	{"I20 a restored state asks anew what is attached", up + "ControllerPublishVolume v n1 OK",
		Facts{Quiet: Feed(Quiet{From: second(4), Restored: true})}, ""},
	{"I20 nothing was restored", up + "ControllerPublishVolume v n1 OK", Facts{Quiet: Feed(Quiet{From: second(4)})},
		"I20@5"},
	{"I20 a restored state attaches nothing else", up + "ControllerPublishVolume v n2 OK",
		Facts{Quiet: Feed(Quiet{From: second(4), Restored: true})}, "I20@5"},
	{"I20 another boot",
		up + "mark rebooted - n1\nNodeStageVolume v n1 staging=/s OK\nNodePublishVolume v n1 staging=/s " +
			"target=/t OK", Facts{Quiet: Feed(Quiet{From: second(4)})}, ""},
	{"I11 pauses that grow",
		"caps\nDeleteVolume v Unavailable\n+900ms\nDeleteVolume v Unavailable\n+2s\nDeleteVolume v " +
			"Unavailable\n+3700ms\nDeleteVolume v Unavailable\n+8s\nDeleteVolume v Unavailable\n+15s\nDeleteVolume v " +
			"Unavailable\n+32s\nDeleteVolume v Unavailable\n+31s\nDeleteVolume v Unavailable", Facts{}, ""},
	{"I11 pauses without jitter",
		"caps\nDeleteVolume v Unavailable\n+1s\nDeleteVolume v Unavailable\n+2s\nDeleteVolume v " +
			"Unavailable\n+4s\nDeleteVolume v Unavailable\n+8s\nDeleteVolume v Unavailable\n+16s\nDeleteVolume v OK",
		Facts{}, "I11@12"},
	{"I11 all come back together", stampede(time.Second, 0), Facts{}, "I11@31"},
	{"I11 all come back spread", stampede(time.Second, 20*time.Millisecond), Facts{}, ""},
	{"I11 staged and unstaged in a hot loop",
		"caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s " +
			"AlreadyExists\n+1ms\nNodeUnstageVolume v n1 " +
			"staging=/s OK\n+1ms\nNodeStageVolume v n1 staging=/s OK", Facts{}, "I11@7"},
	{"I11 undone and made after a pause",
		"caps\nControllerPublishVolume v n1 OK\nNodeStageVolume v n1 staging=/s " +
			"AlreadyExists\n+1ms\nNodeUnstageVolume v n1 " +
			"staging=/s OK\n+1s\nNodeStageVolume v n1 staging=/s OK", Facts{}, ""},
	{"I11 undone and made with pauses that do not grow", "caps\nControllerPublishVolume v n1 OK\n" +
		strings.Repeat("NodeStageVolume v n1 staging=/s AlreadyExists\nNodeUnstageVolume v n1 staging=/s OK\n", 7),
		Facts{}, "I11@13 I11@15"},

	{"I19 a text too long", "caps\nCreateVolume db request={\"name\":\"" + strings.Repeat("x", 129) + "\"} OK", Facts{},
		"I19@2"},
	{"I19 a text as long as it may be", "caps\nCreateVolume db request={\"name\":\"" + strings.Repeat("x", 128) +
		"\"} OK",
		Facts{}, ""},
	{"I19 a map too large", "caps\nCreateVolume db request={\"parameters\":{\"k\":\"" + strings.Repeat("x", 4096) +
		"\"}} OK", Facts{}, "I19@2"},
	{"I19 a map with a long value", "caps\nCreateVolume db request={\"parameters\":{\"k\":\"" +
		strings.Repeat("x", 4095) + "\"}} OK", Facts{}, ""},
	{"I19 secrets too large", "caps\nDeleteVolume v secrets=" + strings.Repeat("x", 4097) + " OK",
		Facts{Secrets: Feed("x"), Texts: Feed[Text]()}, "I19@2"},
	{"I19 mount flags", "caps\nCreateVolume db request={\"volume_capabilities\":[{\"mount\":{\"mount_flags\":[\"" +
		strings.Repeat("x", 4097) + "\"]}}]} OK", Facts{}, "I19@2"},
	{"I19 a node's id", "caps\nControllerPublishVolume v n1 request={\"node_id\":\"" + strings.Repeat("x", 256) +
		"\"} OK",
		Facts{}, ""},
	{"I19 not even recorded", "caps\nCreateVolume db request=\"huge\" OK", Facts{}, "I19@2"},
}

// stampede has five volumes fail and come back after a pause, each a bit later than the one before.
func stampede(pause, spread time.Duration) string {
	out := "caps\n"
	for i := range 5 {
		out += fmt.Sprintf(">%d DeleteVolume v%d\n+0s\n", i, i)
	}
	for i := range 5 {
		out += fmt.Sprintf("<%d Unavailable\n+0s\n", i)
	}
	out += fmt.Sprintf("+%s\n", pause)
	for i := range 5 {
		out += fmt.Sprintf("DeleteVolume v%d OK\n+%s\n", i, spread)
	}
	return out
}
