"""``tf.summary`` and ``tf.profiler``."""

from drumline.compat.symbols.table import area, same_names

_MODULE = "drumline.compat.training.summaries"

AREA = (
    *same_names(
        _MODULE,
        "summary.",
        "audio create_file_writer create_noop_writer flush histogram image record_if scalar "
        "should_record_summaries text trace_export trace_off trace_on write",
        differences={
            "create_file_writer": "directories are local: URLs are refused",
            "trace_on": "there are no graphs: a profile alone is written",
            "trace_export": "the profile is in the directory given to trace_on",
        },
    ),
    *same_names(_MODULE, "summary.experimental.", "get_step set_step summary_scope write_raw_pb"),
    *area(
        _MODULE,
        EventWriter="summary.SummaryWriter",
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
