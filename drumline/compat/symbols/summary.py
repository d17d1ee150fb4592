"""``tf.summary`` and ``tf.profiler``."""

from drumline.compat.symbols.table import area, same_names

_MODULE = "drumline.compat.training.summaries"

AREA = (
    *same_names(
        _MODULE,
        "summary.",
        "audio create_file_writer flush histogram image record_if scalar should_record_summaries "
        "text trace_export write",
        differences={
            "create_file_writer": "directories are local: URLs are refused",
            "trace_export": "graphs are of JAX's programs; the profile is where trace_on puts it",
        },
    ),
    *same_names(
        "drumline.summary",
        "summary.",
        "SummaryWriter create_noop_writer graph trace_off trace_on",
    ),
    *same_names("drumline.summary", "summary.experimental.", "get_step set_step"),
    *same_names(_MODULE, "summary.experimental.", "summary_scope write_raw_pb"),
    *area(
        _MODULE,
        ProfilerChoices="profiler.experimental.ProfilerOptions",
        ProfileContext="profiler.experimental.Profile",
        ProfiledSection="profiler.experimental.Trace",
        start_profile="profiler.experimental.start",
        stop_profile="profiler.experimental.stop",
        differences={
            "stop_profile": "profiles are always saved",
            "ProfilerChoices": "delay_ms is refused",
        },
    ),
)
