# A volume that begins with what a snapshot holds: berth volume create examples/redis-restored.volume.hcl
# The snapshot cannot be deleted before the volume is made.
id        = "redis-restored"
name      = "redis-restored"
type      = "csi"
plugin_id = "local-csi" # a source is always of the same plugin

snapshot_id = "SNAPSHOT" # as "berth volume snapshot list" shows it in the column Snapshot ID

capacity_min = "128MiB" # at least as large as the source
capacity_max = "256MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type = "ext4"
}
