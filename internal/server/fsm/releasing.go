package fsm

// What follows is taken even when the disk is nearly full: it ends something, releases something, or records how
// something that was begun has ended. Refusing it would keep the disk full and the truth out of the log.

// Releases is true of a plan that places nothing.
func (c *PlanApply) Releases() bool { return len(c.Place) == 0 && len(c.Claims) == 0 }

// Releases lets evaluations end.
func (c *EvalUpdate) Releases() bool { return true }

// Releases lets silent nodes be taken down.
func (c *NodeStatus) Releases() bool { return true }

// Releases lets a claim end by proof.
func (c *ClaimProof) Releases() bool { return true }

// Releases is true of all but a new record: the end of a call that was begun must be written.
func (c *AttachmentPut) Releases() bool { return c.Seen > 0 }

// Releases is true of all but a new record.
func (c *VolumePut) Releases() bool { return c.Seen > 0 }

// Releases is true of all but a new record.
func (c *SnapshotPut) Releases() bool { return c.Seen > 0 }

// Releases lets a volume be forgotten.
func (c *VolumeForget) Releases() bool { return true }

// Releases lets a snapshot be forgotten.
func (c *SnapshotForget) Releases() bool { return true }

// Releases lets a plugin be forgotten.
func (c *PluginForget) Releases() bool { return true }

// Releases lets nodes register: what they hold is released by them.
func (c *NodeRegister) Releases() bool { return true }

// Releases lets a node be spared new allocs.
func (c *NodeEligibility) Releases() bool { return true }

// Releases lets an alloc be stopped.
func (c *AllocMigrate) Releases() bool { return true }

// Releases lets plugins be known again after a restart: their volumes are detached through them.
func (c *PluginLearn) Releases() bool { return true }

// Releases is true: a term begins with it, and without a term nothing is released on a full disk.
func (c *LineageMark) Releases() bool { return true }
