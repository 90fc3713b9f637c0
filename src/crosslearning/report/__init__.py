"""Reports: what is known of runs, as one page that needs nothing else."""

from crosslearning.report.gathering import RunReport, gather
from crosslearning.report.page import report_page

__all__ = ["RunReport", "gather", "report_page"]
