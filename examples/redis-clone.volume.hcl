# A volume that begins with what another one holds: berth volume create examples/redis-clone.volume.hcl
# The other one is not changed, and cannot be deleted before the copy is made.
id        = "redis-clone"
name      = "redis-clone"
type      = "csi"
plugin_id = "local-csi" # a source is always of the same plugin

clone_id = "redis-data" # the id of the volume to copy

capacity_min = "128MiB" # at least as large as the source
capacity_max = "256MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type = "ext4"
}
