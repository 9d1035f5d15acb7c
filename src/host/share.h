// SPDX-License-Identifier: MIT
// The host device's memory and events that other processes open: anonymous files, found by /proc/PID/fd, which go with the last process that has them.
#ifndef GWB_HOST_SHARE_H
#define GWB_HOST_SHARE_H

#include "../device.h"

// The functions of the device's table.
int gwb_host_share_create(gwb_device *d, gwb_share *s);
int gwb_host_share_open(gwb_device *d, gwb_share *s, bool readonly);
void gwb_host_share_close(gwb_device *d, gwb_share *s);
int gwb_host_event_share(const gwb_event *e, char text[GWB_SHARE_TEXT]);
int gwb_host_event_join(gwb_event *e, gwb_device *d, const char *text);
int gwb_host_identify(gwb_device *d, char text[GWB_SHARE_TEXT]);

// Those of an event with e->shared. A wait that cannot end, because the process that was to reach the event is gone, fails; where a queue waits, that is
// a fault (gwb_host_fault).
int gwb_host_event_create(gwb_event *e);
void gwb_host_event_leave(gwb_event *e);
int gwb_host_event_record(gwb_event *e, gwb_queue *q);
int gwb_host_event_after(gwb_queue *q, const gwb_event *e);
int gwb_host_event_query(const gwb_event *e);
int gwb_host_event_wait(const gwb_event *e);

#endif
