package storage

import (
	"testing"

	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/job"
	"berth/internal/model/volume"
)

func reads(j *job.Job) { j.TaskGroups[0].Volumes["data"].ReadOnly = true }

// TestReadersOfOneNodeShareAVolume: of a volume that is made for the readers of one node, the second one is placed
// beside the first, and mounts it; so is one that spells the volume's mount flags in another order, twice.
func TestReadersOfOneNodeShareAVolume(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.startPlugin(csitest.Fake{})
	c.member("one", p)
	c.awaitPlugin(p.ID)
	spec := specOf(p, volume.SingleNodeReader)
	spec.MountOptions = &volume.MountOptions{MountFlags: []string{"noatime", "nodev"}}
	if _, err := c.create("db", spec); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		c.runJob(id, "db", volume.SingleNodeReader, reads)
		c.running(id)
	}
	c.runJob("c", "db", volume.SingleNodeReader, reads, func(j *job.Job) {
		j.TaskGroups[0].Count = 2
		j.TaskGroups[0].Volumes["data"].MountOptions = &job.MountOptions{MountFlags: []string{"nodev", "noatime"}}
	})
	eventually(t, "it is published for all four", func() bool { return count(p, "NodePublishVolume") == 4 })
	c.running("c")
	if staged, published := count(p, "NodeStageVolume"), count(p, "NodePublishVolume"); staged != 1 || published != 4 {
		t.Errorf("staged %d times and published %d times", staged, published)
	}
	for _, id := range []string{"a", "b", "c"} {
		c.stopJob(id)
	}
	c.atRest(p)
}

// TestFlagsInAnotherOrderAreTheSameFlags: two jobs that spell the mount options of a shared volume in another order are
// placed beside each other by the scheduler, and the node mounts for both. To write the volume again with its flags in
// another order changes nothing, so that it may be in use.
func TestFlagsInAnotherOrderAreTheSameFlags(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.startPlugin(csitest.Fake{})
	c.member("one", p)
	c.awaitPlugin(p.ID)
	spec := specOf(p, volume.MultiNodeMultiWriter)
	spec.MountOptions = &volume.MountOptions{MountFlags: []string{"noatime", "nodev"}}
	if _, err := c.create("db", spec); err != nil {
		t.Fatal(err)
	}
	c.runJob("a", "db", volume.MultiNodeMultiWriter)
	c.running("a")
	c.runJob("b", "db", volume.MultiNodeMultiWriter, func(j *job.Job) {
		j.TaskGroups[0].Volumes["data"].MountOptions = &job.MountOptions{MountFlags: []string{"nodev", "noatime"}}
	})
	c.running("b")
	if staged, published := count(p, "NodeStageVolume"), count(p, "NodePublishVolume"); staged != 1 || published != 2 {
		t.Errorf("staged %d times and published %d times", staged, published)
	}
	spec.MountOptions = &volume.MountOptions{MountFlags: []string{"nodev", "noatime"}}
	if reply, err := c.create("db", spec); err != nil || reply.Outcome != "unchanged" {
		t.Errorf("the volume written again: %+v, %v", reply, err)
	}
	c.stopJob("a")
	c.stopJob("b")
	c.atRest(p)
}
