# The exception tag by which longjmp unwinds. The compiler refers to it, and no library of the toolchain defines it.
	.tagtype	__c_longjmp i32
	.globl	__c_longjmp
__c_longjmp:
